//! The first five checks: their order and their codes.

use super::*;
use runloom_ports::project::{Owner, RouterModule, Via};

pub(crate) fn project(allow: &[&str]) -> RunProject {
    let module = |name: &str, methods: &[&str]| RouterModule {
        name: name.to_owned(),
        methods: methods.iter().map(|name| (*name).to_owned()).collect(),
    };
    RunProject {
        owner: Owner::workspace(),
        source: "key_1".to_owned(),
        via: Via::Automation,
        router: vec![
            module("calendar", &["read", "create"]),
            module("memory", &["update"]),
            module("gone", &["x"]),
        ],
        allow: allow.iter().map(|action| (*action).to_owned()).collect(),
        skills: vec!["calendar".to_owned()],
        prompt: String::new(),
        timeout_ms: 30_000,
        max_output_bytes: 1024,
        credential_ttl_seconds: 300,
    }
}

fn run(allow: &[&str], call: &Value) -> Result<CheckedCall, Failure> {
    let modules = ModuleSet::with_operator(Vec::new());
    check(&modules, "acme", &project(allow), call)
}

fn call(module: &str, method: &str, input: Value) -> Value {
    json!({"module": module, "method": method, "input": input})
}

#[test]
fn the_first_failing_check_gives_the_code() {
    let all = ["calendar.read", "gone.x"];
    let day = json!({"mode": "day", "date": "2026-04-21"});
    let secret = json!({"mode": "rlpc_a.b"});
    let deep = (0..32).fold(json!({}), |inner, _| json!({"x": inner}));
    for (value, expected) in [
        (json!([]), code::INVALID_ENVELOPE),
        (json!({}), code::INVALID_ENVELOPE),
        (
            json!({"command": "calendar", "subcommand": "read", "args": {}}),
            code::INVALID_ENVELOPE,
        ),
        (
            json!({"module": "Calendar", "method": "read", "input": {}}),
            code::INVALID_ENVELOPE,
        ),
        (
            json!({"module": "calendar", "method": "read", "input": "{}"}),
            code::INVALID_ENVELOPE,
        ),
        (
            json!({"module": "calendar", "method": "read", "input": {}, "x": 1}),
            code::INVALID_ENVELOPE,
        ),
        (
            call("calendar", "read", json!({"x": "y".repeat(70_000)})),
            code::INVALID_ENVELOPE,
        ),
        (call("calendar", "read", deep), code::INVALID_ENVELOPE),
        (call("crm", "read", secret.clone()), code::UNKNOWN_ACTION),
        (call("calendar", "share", json!({})), code::UNKNOWN_ACTION),
        (call("skills", "write", json!({})), code::UNKNOWN_ACTION),
        (
            call("calendar", "create", secret.clone()),
            code::ACTION_NOT_ALLOWED,
        ),
        (call("calendar", "read", secret), code::CREDENTIAL_IN_INPUT),
        (
            call("calendar", "read", json!({"mode": "month"})),
            code::INVALID_ACTION_INPUT,
        ),
        (
            call("calendar", "read", json!({"mode": "day"})),
            code::INVALID_ACTION_INPUT,
        ),
        (call("gone", "x", json!({})), code::PROCESS_UNAVAILABLE),
    ] {
        let failure = run(&all, &value).unwrap_err();
        assert_eq!(failure.code, expected, "{value}");
    }
    let passed = run(&all, &call("calendar", "read", day)).unwrap();
    assert!(matches!(passed, CheckedCall::Run { method, .. } if method == "read"));
}

#[test]
fn an_invalid_call_says_what_would_be_right() {
    let error = run(&[], &json!({"module": "calendar"}))
        .unwrap_err()
        .error();
    assert_eq!(error["module"], "calendar");
    assert_eq!(error["method"], Value::Null);
    assert_eq!(error["input_schema"]["input"], "object");
    let paths: Vec<&str> = error["issues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["method", "input"]);
    let wrong = call("calendar", "read", json!({"mode": "month"}));
    let error = run(&["calendar.read"], &wrong).unwrap_err().error();
    assert_eq!(
        error["input_schema"],
        json!({"mode": "string enum(day|range|event)"})
    );
}

#[test]
fn cards_are_read_whatever_is_allowed() {
    let listed = run(&[], &call("skills", "list", json!({}))).unwrap();
    let CheckedCall::Answered(data) = listed else {
        panic!("no answer");
    };
    assert_eq!(data["count"], 1);
    assert_eq!(data["items"][0]["skill"], "calendar");
    assert_eq!(data["items"][0]["actions"], json!(["read", "create"]));
    let card = run(
        &[],
        &call(
            "skills",
            "read",
            json!({"skill": "calendar", "action": "read"}),
        ),
    );
    assert!(
        matches!(card.unwrap(), CheckedCall::Answered(data) if data["text"].as_str().unwrap().contains("calendar"))
    );
    for hidden in [
        json!({"skill": "memory"}),
        json!({"skill": "calendar", "action": "share"}),
        json!({"skill": "nothing"}),
    ] {
        let failure = run(&[], &call("skills", "read", hidden)).unwrap_err();
        assert_eq!(failure.code, code::NOT_FOUND);
    }
    let failure = run(&[], &call("skills", "read", json!({}))).unwrap_err();
    assert_eq!(failure.code, code::INVALID_ACTION_INPUT);
}
