//! Tables of policies and the decisions that they give.

use runloom_protocol::validate;
use serde_json::json;

use super::*;

fn compiled(policy: Value) -> CompiledPolicy {
    let body = json!({"systemPrompt": "x", "prompt": "x", "policy": policy});
    let spec = validate::create_run(&body).unwrap().spec;
    let policy = spec.policy.unwrap();
    CompiledPolicy::compile(&policy, "policy", &SchemaCache::new()).unwrap()
}

fn action<'a>(tool: &'a str, effect: CallEffect, input: &'a Value) -> Action<'a> {
    Action {
        tool,
        sub_action: None,
        effect,
        hints: Hints::of_effect(effect),
        input,
    }
}

fn decision(policy: Value, tool: &str, effect: CallEffect, input: &Value) -> Decision {
    judge([&compiled(policy)], &action(tool, effect, input)).decision
}

#[test]
fn first_matching_rule_decides() {
    use CallEffect::{Delegate, Idempotent, Once, Read};
    let policy = json!({"default": "deny", "rules": [
        {"tools": ["files_read", "docs_*"], "decision": "allow"},
        {"effects": ["once", "delegate"], "decision": "ask"},
        {"tools": ["files_*"], "annotations": {"destructiveHint": true}, "decision": "ask"},
        {"tools": ["*"], "effects": ["read"], "decision": "allow"},
    ]});
    for (tool, effect, expected) in [
        ("files_read", Once, Decision::Allow),
        ("docs_anything", Once, Decision::Allow),
        ("pay", Once, Decision::Ask),
        ("helper", Delegate, Decision::Ask),
        ("files_write", Idempotent, Decision::Ask),
        ("files_stat", Read, Decision::Allow),
        ("web_fetch", Read, Decision::Allow),
        ("web_put", Idempotent, Decision::Deny),
    ] {
        let found = decision(policy.clone(), tool, effect, &json!({}));
        assert_eq!(found, expected, "{tool} {effect:?}");
    }
}

#[test]
fn arguments_must_satisfy_the_schema() {
    let policy = json!({"rules": [{
        "tools": ["pay"],
        "args": {"properties": {"amount": {"minimum": 1000}}, "required": ["amount"]},
        "decision": "ask",
    }]});
    for (input, expected) in [
        (json!({"amount": 1000}), Decision::Ask),
        (json!({"amount": 999}), Decision::Allow),
        (json!({}), Decision::Allow),
    ] {
        let found = decision(policy.clone(), "pay", CallEffect::Once, &input);
        assert_eq!(found, expected, "{input}");
    }
}

#[test]
fn strictest_of_several_policies_wins_with_its_reason() {
    let allow = compiled(json!({"rules": [{"decision": "allow", "reason": "a"}]}));
    let ask = compiled(
        json!({"rules": [{"id": "q", "decision": "ask", "reason": "b", "timeoutMs": 5000}]}),
    );
    let narrow = compiled(json!({"rules": [
        {"id": "n", "decision": "ask", "reason": "c", "approver": "other", "timeoutMs": 2000}]}));
    let deny = compiled(json!({"rules": [{"id": "d", "decision": "deny", "reason": "e"}]}));
    let input = json!({});
    let action = action("x", CallEffect::Once, &input);
    let found = judge([&allow, &ask, &narrow], &action);
    assert_eq!(found.decision, Decision::Ask);
    assert_eq!(
        (found.rule.as_deref(), found.reason.as_deref()),
        (Some("q"), Some("b"))
    );
    assert_eq!(
        (found.approver, found.timeout_ms),
        (Approver::Other, Some(2000))
    );
    let found = judge([&ask, &deny, &allow], &action);
    assert_eq!(
        (found.decision, found.reason.as_deref()),
        (Decision::Deny, Some("e"))
    );
    assert_eq!(judge([], &action), Judgement::allow());
    assert_eq!(
        judge([&CompiledPolicy::closed()], &action).decision,
        Decision::Deny
    );
}

#[test]
fn patterns_of_a_tool_match_its_sub_actions() {
    let policy = compiled(json!({"rules": [
        {"tools": ["batch.delete"], "decision": "deny"}, {"tools": ["batch"], "decision": "ask"}]}));
    let input = json!({});
    for (name, expected) in [
        ("batch.delete", Decision::Deny),
        ("batch.create", Decision::Ask),
    ] {
        let action = Action {
            sub_action: Some(name),
            ..action("batch", CallEffect::Once, &input)
        };
        assert_eq!(judge([&policy], &action).decision, expected, "{name}");
    }
}

#[test]
fn hints_of_mcp_tools_have_defaults_and_give_way_to_the_administrator() {
    let hints = |read_only, destructive, idempotent, open_world| Hints {
        read_only,
        destructive,
        idempotent,
        open_world,
    };
    for (own, effect, expected) in [
        (None, Effect::Once, hints(false, true, false, true)),
        (
            Some(json!({"readOnlyHint": true})),
            Effect::Read,
            hints(true, false, false, true),
        ),
        (
            Some(json!({"readOnlyHint": true, "destructiveHint": true})),
            Effect::Read,
            hints(true, false, false, true),
        ),
        (
            Some(json!({"destructiveHint": false, "openWorldHint": false})),
            Effect::Once,
            hints(false, false, false, false),
        ),
        (
            Some(json!({"readOnlyHint": true})),
            Effect::Once,
            hints(false, true, false, true),
        ),
        (
            Some(json!({})),
            Effect::Read,
            hints(true, false, true, true),
        ),
    ] {
        assert_eq!(
            Hints::of_mcp(own.as_ref(), effect),
            expected,
            "{own:?} {effect:?}"
        );
    }
}

#[test]
fn rejects_schemas_that_cannot_be_used() {
    let body = json!({"systemPrompt": "x", "prompt": "x", "policy": {"rules": [
        {"decision": "allow"}, {"args": {"type": "nothing"}, "decision": "deny"}]}});
    let policy = validate::create_run(&body).unwrap().spec.policy.unwrap();
    let issues = CompiledPolicy::compile(&policy, "policy", &SchemaCache::new()).unwrap_err();
    assert_eq!(issues[0].path, "policy.rules[1].args");
}
