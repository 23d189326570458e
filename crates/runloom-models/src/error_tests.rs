//! Classification of errors, by table.

use super::*;

fn error(status: u16, body: &str) -> ModelError {
    from_response(status, &HeaderMap::new(), body.as_bytes())
}

#[test]
fn classifies_the_status_and_codes_of_every_vendor() {
    use ErrorClass::*;
    let table = [
        (
            429,
            r#"{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}"#,
            RateLimit,
            true,
        ),
        (
            429,
            r#"{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            RateLimit,
            false,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
            true,
        ),
        (
            503,
            r#"[{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]"#,
            Overloaded,
            true,
        ),
        (500, "<html>oops</html>", Server, true),
        (502, "", Server, true),
        (504, "", Timeout, true),
        (408, "", Timeout, true),
    ];
    check(&table);
}

#[test]
fn does_not_retry_permanent_errors() {
    use ErrorClass::*;
    let table = [
        (
            401,
            r#"{"error":{"message":"no","code":"invalid_api_key"}}"#,
            Auth,
            false,
        ),
        (403, r#"{"message":"denied"}"#, Auth, false),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
            ContextWindow,
            false,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens"}}"#,
            ContextWindow,
            false,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}"#,
            ContextWindow,
            false,
        ),
        (
            400,
            r#"{"object":"error","message":"bad temperature","type":"BadRequestError","code":400}"#,
            InvalidRequest,
            false,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}"#,
            InvalidRequest,
            false,
        ),
        (
            404,
            r#"{"error":"model 'x' not found"}"#,
            InvalidRequest,
            false,
        ),
        (302, "", InvalidRequest, false),
    ];
    check(&table);
}

fn check(table: &[(u16, &str, ErrorClass, bool)]) {
    for &(status, body, class, retryable) in table {
        let error = error(status, body);
        assert_eq!(
            (error.class, error.retryable),
            (class, retryable),
            "{status} {body}"
        );
        assert_eq!(error.api_status, Some(status));
        assert!(!error.message.is_empty());
    }
}

#[test]
fn classifies_errors_inside_a_stream_by_code() {
    let table = [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"o"}}"#,
            ErrorClass::Overloaded,
        ),
        (
            r#"{"code":"rate_limit_exceeded","message":"o"}"#,
            ErrorClass::RateLimit,
        ),
        (
            r#"{"error":{"code":502,"message":"upstream"}}"#,
            ErrorClass::Server,
        ),
        (
            r#"{"error":{"code":"context_length_exceeded","message":"o"}}"#,
            ErrorClass::ContextWindow,
        ),
        (r#"{"error":{"message":"who knows"}}"#, ErrorClass::Server),
    ];
    for (body, class) in table {
        assert_eq!(
            from_stream(ErrorBody::parse(body.as_bytes())).class,
            class,
            "{body}"
        );
    }
    let throttled = ErrorBody::parse(br#"{"message":"slow"}"#).with_code("throttlingException");
    assert_eq!(from_stream(throttled).class, ErrorClass::RateLimit);
}

#[test]
fn removes_keys_from_messages() {
    let mut error = error(
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-proj-abcdefgh. Token hunter2hunter2 is bad"}}"#,
    );
    redact(&mut error, &[Secret::new("hunter2hunter2")]);
    assert_eq!(
        error.message,
        "Incorrect API key provided: ***. Token *** is bad"
    );
}

#[test]
fn keeps_the_text_around_a_key() {
    for (text, shown) in [
        (
            r#"{"error":{"message":"bad key: sk-proj-abcdefgh"}}"#,
            r#"{"error":{"message":"bad key: ***"}}"#,
        ),
        (
            r#"{"key":"AIzaSyAbcdefgh","x":1}"#,
            r#"{"key":"***","x":1}"#,
        ),
        ("sk-****cdef\nAKIAABCDEFGH,", "***\n***,"),
        (
            "a task-force of risk-takers, sk-1",
            "a task-force of risk-takers, sk-1",
        ),
        ("é sk-éabcdef", "é sk-éabcdef"),
    ] {
        assert_eq!(without_secrets(text, &[]), shown);
    }
}

#[test]
fn cuts_long_messages_between_characters() {
    let error = error(500, &"é".repeat(5_000));
    assert!(error.message.len() < 2_010);
}

#[test]
fn detects_a_rejected_output_schema() {
    let yes = r#"{"error":{"message":"Invalid schema for response_format 'output': In context=(), 'additionalProperties' is required","type":"invalid_request_error","param":"text.format.schema","code":"invalid_json_schema"}}"#;
    let no = r#"{"error":{"message":"Invalid schema for function 'f': bad","type":"invalid_request_error","code":"invalid_function_parameters"}}"#;
    assert!(rejects_schema(&error(400, yes)));
    assert!(!rejects_schema(&error(400, no)));
    assert!(!rejects_schema(&error(500, yes)));
}

#[test]
fn classifies_a_bad_google_key_by_its_reason() {
    let body = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[
        {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#;
    let error = error(400, body);
    assert_eq!(
        (error.class, error.api_code.as_deref()),
        (ErrorClass::Auth, Some("API_KEY_INVALID"))
    );
}

#[test]
fn parses_a_retry_hint_in_the_body() {
    let google = r#"{"error":{"code":429,"message":"q","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x/RetryInfo","retryDelay":"3.5s"}]}}"#;
    assert_eq!(
        error(429, google).retry_after,
        Some(Duration::from_millis(3_500))
    );
}
