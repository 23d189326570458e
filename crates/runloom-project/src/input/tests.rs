//! Types, their rendering, and what they refuse.

use super::*;

fn read() -> InputType {
    InputType::new(&json!({"oneOf": [
        {"type": "object", "required": ["mode", "date"], "properties": {
            "mode": {"const": "day"}, "date": {"type": "string", "format": "date"},
            "timezone": {"type": "string", "format": "timezone"}}},
        {"type": "object", "required": ["mode", "event_id"], "properties": {
            "mode": {"const": "event"}, "event_id": {"type": "string", "minLength": 1}}},
    ]}))
    .unwrap()
}

fn paths(kind: &InputType, input: &Value) -> Vec<String> {
    kind.issues(input)
        .into_iter()
        .map(|issue| issue.path)
        .collect()
}

#[test]
fn a_union_is_its_tag_until_the_tag_is_right() {
    let kind = read();
    let tag = json!({"mode": "string enum(day|event)"});
    for wrong in [json!({}), json!({"mode": "month"}), json!({"mode": 1})] {
        assert_eq!(paths(&kind, &wrong), ["mode"], "{wrong}");
        assert_eq!(kind.rendered_for(&wrong), tag);
    }
    let half = json!({"mode": "day", "x": 1});
    assert_eq!(paths(&kind, &half), ["date", "x"]);
    assert_eq!(
        kind.rendered_for(&half),
        json!({"mode": "string enum(day|event)", "date": "date", "timezone": "string optional"})
    );
    assert!(
        kind.issues(&json!({"mode": "event", "event_id": "e"}))
            .is_empty()
    );
}

#[test]
fn nothing_is_converted() {
    let kind = InputType::new(&json!({"type": "object", "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 5},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": ["string", "null"], "maxLength": 3},
        "who": {"type": "array", "minItems": 1, "items": {"oneOf": [
            {"type": "object", "required": ["email"], "properties": {"email": {"type": "string", "format": "email"}}},
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}]}},
    }}))
    .unwrap();
    for (input, path) in [
        (json!({"count": "2"}), "count"),
        (json!({"count": 2.5}), "count"),
        (json!({"count": 9}), "count"),
        (json!({"at": "2026-04-21T10:00:00"}), "at"),
        (json!({"note": "long"}), "note"),
        (json!({"who": []}), "who"),
        (json!({"who": [{"email": "x"}]}), "who[0].email"),
        (json!({"who": [{"email": "a@b", "id": "1"}]}), "who[0]"),
        (json!([]), ""),
    ] {
        assert_eq!(paths(&kind, &input), [path], "{input}");
    }
    let good = json!({"count": 2, "note": null, "who": [{"id": "1"}, {"email": "a@b"}]});
    assert_eq!(kind.issues(&good), []);
}

#[test]
fn messages_repeat_no_value() {
    let kind = InputType::new(&json!({"type": "object", "properties": {
        "code": {"type": "string", "pattern": "^[a-z]+$"}, "when": {"type": "string", "format": "date"}}}))
    .unwrap();
    for field in ["code", "when"] {
        let issues = kind.issues(&json!({field: "SECRET1"}));
        assert_eq!(issues.len(), 1);
        assert!(!issues[0].message.contains("SECRET1"), "{issues:?}");
        assert_eq!(issues[0].path, field);
    }
}
