//! The body of a refusal, both ways.

use runloom_protocol::error::{ErrorBody, ErrorCode, Issue, Required};
use serde_json::json;

#[test]
fn every_code_is_read_back_from_its_word() {
    for &code in ErrorCode::ALL {
        assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
    }
    assert_eq!(ErrorCode::parse("teapot"), None);
}

#[test]
fn the_codes_of_the_protocol_are_all_there() {
    let table = "unauthorized forbidden not_found invalid_request invalid_model invalid_plugin unknown_tool_use \
                 run_terminal session_ended payload_too_large unsupported_media_type rate_limit_exceeded unavailable";
    for word in table.split_whitespace() {
        assert!(ErrorCode::parse(word).is_some(), "{word}");
    }
}

#[test]
fn a_plain_body_has_error_code_and_message_and_nothing_else() {
    let body = ErrorBody::new(ErrorCode::RunTerminal, "The run has ended.");
    let wire =
        json!({"error": "run_terminal", "code": "run_terminal", "message": "The run has ended."});
    assert_eq!(serde_json::to_value(&body).unwrap(), wire);
    assert_eq!(serde_json::from_value::<ErrorBody>(wire).unwrap(), body);
}

#[test]
fn the_rate_limit_has_two_words() {
    let body = ErrorBody::new(ErrorCode::RateLimitExceeded, "Slow down.");
    assert_eq!(
        (body.error.as_str(), body.code.as_str()),
        ("rate_limited", "rate_limit_exceeded")
    );
}

#[test]
fn a_credential_error_carries_a_sentence_and_a_hint() {
    let body = ErrorBody::new(ErrorCode::NotFound, "No such workspace.")
        .with_error("Workspace path does not match this credential")
        .with_hint("Use /workspaces/acme.");
    assert_eq!(
        serde_json::to_value(&body).unwrap(),
        json!({
            "error": "Workspace path does not match this credential", "code": "not_found",
            "message": "No such workspace.", "hint": "Use /workspaces/acme.",
        })
    );
}

#[test]
fn one_scope_is_a_string_and_several_are_an_array() {
    let body = || ErrorBody::new(ErrorCode::Forbidden, "No.").with_error("insufficient_scope");
    let one = serde_json::to_value(body().with_required(vec!["runs:write".into()])).unwrap();
    assert_eq!(one["required"], json!("runs:write"));
    let two = serde_json::to_value(body().with_required(vec!["a".into(), "b".into()])).unwrap();
    assert_eq!(two["required"], json!(["a", "b"]));
    let read: ErrorBody = serde_json::from_value(two).unwrap();
    assert_eq!(
        read.required,
        Some(Required::Many(vec!["a".into(), "b".into()]))
    );
}

#[test]
fn a_refused_body_says_the_first_violation_and_lists_all() {
    let issue = |path: &str, message: &str| Issue {
        path: path.into(),
        message: message.into(),
    };
    let one = ErrorBody::invalid_request(vec![issue("prompt", "is required")]);
    assert_eq!(one.message, "prompt: is required");
    let two = ErrorBody::invalid_request(vec![issue("", "expected an object"), issue("b", "no")]);
    assert_eq!(
        two.message,
        "body: expected an object (and 1 more, see `issues`)"
    );
    assert_eq!(two.error_code(), Some(ErrorCode::InvalidRequest));
    assert_eq!(
        serde_json::to_value(&two).unwrap()["issues"],
        json!([{"path": "", "message": "expected an object"}, {"path": "b", "message": "no"}])
    );
}

#[test]
fn a_body_of_an_older_server_without_code_is_read() {
    let body: ErrorBody =
        serde_json::from_value(json!({"error": "Unauthorized", "extra": 1})).unwrap();
    assert_eq!(
        (body.error.as_str(), body.error_code()),
        ("Unauthorized", None)
    );
}
