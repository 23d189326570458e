//! Tests of the requests of AG-UI.

use serde_json::{Value, json};

use crate::ag_ui::{MessageBody, ProtocolVersion};
use crate::approval::ApprovalVerdict;
use crate::validate::ag_ui;

fn body(key: &str, value: Value) -> Value {
    let mut body = json!({"threadId": "t", "runId": "r", "messages": []});
    body[key] = value;
    body
}

#[test]
fn reads_messages_versions_and_answers() {
    let mut request = body(
        "messages",
        json!([
            {"id": "s", "role": "system", "content": "Be kind."},
            {"id": "u", "role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"id": "t", "role": "tool", "toolCallId": "tu_1", "content": "x", "error": "failed"},
            {"id": "r", "role": "reasoning", "content": "hm"},
        ]),
    );
    request["protocolVersion"] = json!("1.0");
    request["resume"] = json!([
        {"interruptId": "apr_1", "status": "resolved", "payload": {"approved": true, "input": {"a": 1}}},
        {"interruptId": "apr_2", "status": "resolved", "payload": {"approved": false}},
        {"interruptId": "apr_3", "status": "cancelled"},
    ]);
    let read = ag_ui(&request).unwrap();
    assert_eq!(read.version, ProtocolVersion::One);
    assert!(matches!(&read.messages[1].body, MessageBody::User { text, .. } if text == "a\nb"));
    assert!(
        matches!(&read.messages[2].body, MessageBody::Tool { error: Some(error), .. } if error == "failed")
    );
    assert_eq!(read.messages[3].body, MessageBody::Skipped);
    let decisions: Vec<_> = read.resume.iter().map(|entry| entry.decision).collect();
    let (approve, deny) = (ApprovalVerdict::Approve, ApprovalVerdict::Deny);
    assert_eq!(decisions, [approve, deny, deny]);
    assert_eq!(read.resume[0].input, Some(json!({"a": 1})));
    let old = ag_ui(&body("protocolVersion", json!("0.0.59"))).unwrap();
    assert_eq!(old.version, ProtocolVersion::Unknown);
}

#[test]
fn rejects_errors_with_their_path() {
    let user = |id: &str| json!({"id": id, "role": "user", "content": "x"});
    let resolved = |payload: Value| json!([{"interruptId": "apr_1", "status": "resolved", "payload": payload}]);
    let cancelled = json!({"interruptId": "apr_1", "status": "cancelled"});
    for (key, value, path) in [
        ("threadId", json!(""), "threadId"),
        ("threadId", json!("x".repeat(201)), "threadId"),
        ("runId", json!("r\u{e9}"), "runId"),
        ("messages", json!([user("a"), user("a")]), "messages[1].id"),
        (
            "messages",
            json!([{"role": "user", "content": "x"}]),
            "messages[0].id",
        ),
        (
            "messages",
            json!([{"id": "a", "role": "robot"}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"id": "a", "role": "tool", "content": "x"}]),
            "messages[0].toolCallId",
        ),
        ("messages", json!(vec![user("a"); 1001]), "messages"),
        ("tools", json!([{"name": "no spaces"}]), "tools[0].name"),
        (
            "tools",
            json!([{"name": "a"}, {"name": "a"}]),
            "tools[1].name",
        ),
        ("state", json!({"a": "x".repeat(65_536)}), "state"),
        (
            "forwardedProps",
            json!({"runloom": {"tools": [{"kind": "local", "name": "x"}]}}),
            "forwardedProps.runloom.tools[0].kind",
        ),
        (
            "resume",
            json!([{"interruptId": "apr_1", "status": "done"}]),
            "resume[0].status",
        ),
        (
            "resume",
            json!([{"status": "cancelled"}]),
            "resume[0].interruptId",
        ),
        (
            "resume",
            json!([cancelled, cancelled]),
            "resume[1].interruptId",
        ),
        ("resume", resolved(json!({})), "resume[0].payload.approved"),
        (
            "resume",
            resolved(json!({"approved": "yes"})),
            "resume[0].payload.approved",
        ),
        (
            "resume",
            resolved(json!({"approved": false, "input": {}})),
            "resume[0].payload.input",
        ),
    ] {
        let issues = ag_ui(&body(key, value)).unwrap_err();
        assert_eq!(issues[0].path, path, "{issues:?}");
    }
}
