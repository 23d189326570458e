//! Policies and approvals: which calls of a turn are denied, which wait for a person, and what the model reads.

use std::sync::Arc;

use runloom_protocol::event::Event;
use runloom_protocol::limits::APPROVALS_PENDING_MAX;
use runloom_protocol::policy::Policy;
use serde_json::{Value, json};

use super::bench::{Bench, TIMEOUT, approve, calls, deny, plan, says};
use super::facts::facts;
use crate::policy::CompiledPolicy;
use crate::run::{Step, replay};
use runloom_schema::SchemaCache;

pub(super) fn compiled(policy: Value) -> CompiledPolicy {
    let policy: Policy = serde_json::from_value(policy).unwrap();
    CompiledPolicy::compile(&policy, "policy", &SchemaCache::new()).unwrap()
}

fn bench(policy: Value) -> Bench {
    Bench::new(plan(|plan| plan.policies = vec![compiled(policy)]))
}

fn asks_send() -> Value {
    json!({"rules": [{"id": "sends", "tools": ["send"], "decision": "ask", "reason": "It is sent."}]})
}

fn told(bench: &Bench) -> Value {
    let (_, text, is_error) = bench.tool_results(1).remove(0);
    assert!(is_error);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn denied_calls_are_answered_and_not_executed() {
    let mut bench = bench(json!({"rules": [
        {"id": "no-send", "tools": ["send"], "decision": "deny", "reason": "Nothing is sent."}]}));
    bench.turn(calls(&[("send", json!({}))]));
    bench.call_plan();
    assert_eq!(bench.kinds(2), ["tool_result"]);
    let message = "Nothing is sent.";
    let expected = json!({"error": "denied_by_policy", "rule": "no-send", "message": message});
    assert_eq!(told(&bench), expected);
}

#[test]
fn calls_that_cannot_be_executed_are_not_asked_about() {
    let mut bench = bench(json!({"default": "ask"}));
    bench.turn(calls(&[("fly", json!({})), ("typed", json!({"n": "x"}))]));
    bench.call_plan();
    assert_eq!(bench.kinds(2), ["tool_result", "tool_result"]);
}

#[test]
fn all_asks_of_a_turn_are_published_before_any_call_is_executed() {
    let mut bench = bench(json!({"rules": [
        {"tools": ["send", "typed"], "decision": "ask"}, {"tools": ["find"], "decision": "deny"}]}));
    bench.turn(calls(&[
        ("look", json!({})),
        ("send", json!({})),
        ("find", json!({})),
        ("typed", json!({"n": 1})),
    ]));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert_eq!(
        bench.kinds(2),
        ["tool_result", "approval_requested", "approval_requested"]
    );
    assert_eq!(bench.pending(), ["tu_1_2", "tu_1_4"]);
    assert!(bench.decide("tu_1_4", &approve(None)));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert!(bench.asked().is_empty(), "the other one is still undecided");
    assert!(bench.decide("tu_1_2", &approve(None)));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert_eq!(bench.asked(), ["tu_1_1"], "then the calls go as usual");
    bench.answer_all();
    assert_eq!(bench.tool_results(4).len(), 4);
}

#[test]
fn request_carries_what_a_person_needs() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({"to": "x"}))]));
    bench.advance();
    let Some(Event::ApprovalRequested(request)) = bench.events.last() else {
        panic!("{:?}", bench.events);
    };
    assert_eq!(request.run_id, bench.state.plan.run);
    assert_eq!(request.input, json!({"to": "x"}));
    assert_eq!(
        (request.rule.as_deref(), request.reason.as_deref()),
        (Some("sends"), Some("It is sent."))
    );
    let shown = serde_json::to_value(request).unwrap();
    assert_eq!(shown["effect"], "once");
    assert!(shown.get("annotations").is_none() && shown.get("subActions").is_none());
}

#[test]
fn denial_of_a_person_is_told_to_the_model() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({}))]));
    bench.advance();
    assert!(bench.decide("tu_1_1", &deny("Not today.")));
    assert!(!bench.decide("tu_1_1", &approve(None)), "decided once");
    bench.call_plan();
    assert_eq!(bench.kinds(3), ["approval_decided", "tool_result"]);
    let expected = json!({"error": "denied", "message": "A person denied this call: Not today."});
    assert_eq!(told(&bench), expected);
    bench.turn(says("ok"));
    assert!(matches!(bench.end(), Event::Result(_)));
}

#[test]
fn edited_arguments_are_executed_and_told() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({"to": "a"}))]));
    bench.advance();
    assert!(bench.decide("tu_1_1", &approve(Some(json!({"to": "b"})))));
    bench.advance();
    let Some(Event::LocalToolCall(call)) = bench.events.last() else {
        panic!("{:?}", bench.events);
    };
    assert_eq!(call.args, json!({"to": "b"}));
    bench.answer("tu_1_1", "sent");
    let (_, text, is_error) = bench.tool_results(1).remove(0);
    assert!(!is_error);
    assert_eq!(
        text,
        "A person changed the arguments of this call before it was executed: to: \"a\" → \"b\".\nsent"
    );
}

#[test]
fn undecided_calls_expire() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({}))]));
    assert_eq!(bench.advance(), Step::Wait { deadline: TIMEOUT });
    assert_eq!(bench.expire_at(TIMEOUT - 1), 0);
    assert_eq!(bench.expire_at(TIMEOUT), 1);
    assert!(!bench.decide("tu_1_1", &approve(None)), "it is too late");
    bench.call_plan();
    assert_eq!(told(&bench)["error"], "approval_timeout");
    let Event::ApprovalDecided(decided) = &bench.events[3] else {
        panic!("{:?}", bench.events);
    };
    let shown = serde_json::to_value(decided).unwrap();
    assert_eq!(shown["status"], "expired");
    assert_eq!(shown["by"], json!({"kind": "timeout"}));
}

#[test]
fn only_so_many_calls_wait_at_once() {
    let mut bench = bench(json!({"default": "ask"}));
    let many: Vec<_> = (0..APPROVALS_PENDING_MAX + 2)
        .map(|n| ("look", json!({"n": n})))
        .collect();
    bench.turn(calls(&many));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert_eq!(bench.pending().len(), APPROVALS_PENDING_MAX);
    let refused = bench
        .kinds(2)
        .iter()
        .filter(|kind| **kind == "tool_result")
        .count();
    assert_eq!(refused, 2);
    bench.answer_all();
    let (_, text, _) = bench.tool_results(1).remove(0);
    assert!(text.contains("too_many_approvals"), "{text}");
}

#[test]
fn pending_approvals_survive_a_crash() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({})), ("look", json!({}))]));
    bench.advance();
    let before = facts(&bench.state);
    bench.crash();
    assert_eq!(facts(&bench.state), before);
    assert!(bench.decide("tu_1_1", &approve(None)));
    bench.crash();
    assert_eq!(
        bench.pending(),
        ["tu_1_1"],
        "what was not durable never happened"
    );
}

#[test]
fn replay_checks_policy_decisions() {
    let mut bench = bench(asks_send());
    bench.turn(calls(&[("send", json!({}))]));
    bench.answer_all();
    bench.turn(says("done"));
    bench.end();
    let replayed = replay(Arc::clone(&bench.state.plan), &bench.events);
    assert!(replayed.is_ok(), "{replayed:?}");
    let lax = plan(|_| {});
    assert_eq!(replay(lax, &bench.events).unwrap_err().seq, 3);
    let strict = plan(|plan| plan.policies = vec![compiled(json!({"default": "deny"}))]);
    assert_eq!(replay(strict, &bench.events).unwrap_err().seq, 3);
}
