//! What is retained of a run for later runs of its session.

use std::sync::Arc;

use runloom_protocol::limits::{
    RETAINED_CALLS_MAX, RETAINED_INPUT_MAX_BYTES, RETAINED_RESULT_MAX_BYTES,
};
use runloom_protocol::spec::LoopDetection;
use serde_json::{Value, json};

use super::bench::{Bench, TIMEOUT, calls, plan};
use super::facts::facts;
use crate::run::Step;
use crate::toolbox::Toolbox;
use runloom_schema::SchemaCache;

/// A run with a tool whose results are retained, and one whose are not.
fn bench() -> Bench {
    let tools = json!([
        {"kind": "local", "name": "keep", "retain": true, "readOnly": true},
        {"kind": "local", "name": "look", "readOnly": true},
    ]);
    let refs: Vec<_> = serde_json::from_value(tools).unwrap();
    let toolbox = Toolbox::build(&refs, &SchemaCache::new()).unwrap();
    Bench::new(plan(|plan| {
        plan.toolbox = Arc::new(toolbox);
        plan.loop_detection = LoopDetection::Off;
        plan.max_tool_turns = 100;
    }))
}

/// One turn of this call, answered with this.
fn call(bench: &mut Bench, name: &str, input: Value, answer: &str) {
    bench.turn(calls(&[(name, input)]));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    let id = bench.asked().remove(0);
    assert!(bench.answer(&id, answer));
}

fn outputs(bench: &Bench) -> Vec<&str> {
    let retained = bench.state.retained.iter();
    retained.map(|call| call.output.as_str()).collect()
}

#[test]
fn results_of_tools_that_want_it_are_retained_with_their_calls() {
    let mut bench = bench();
    call(&mut bench, "keep", json!({"city": "Oslo"}), "cold");
    call(&mut bench, "look", json!({}), "nothing");
    let [kept] = bench.state.retained.as_slice() else {
        panic!("{:?}", bench.state.retained);
    };
    assert_eq!((kept.name.as_str(), kept.output.as_str()), ("keep", "cold"));
    assert_eq!(kept.input, json!({"city": "Oslo"}));
    assert_eq!(kept.id, "tu_1_1", "not the vendor's");
    bench.flush();
    assert_eq!(facts(&bench.folded()), facts(&bench.state));
}

#[test]
fn what_is_too_large_is_left_out_whole() {
    let mut bench = bench();
    let text = |bytes: usize| "x".repeat(bytes);
    call(
        &mut bench,
        "keep",
        json!({}),
        &text(RETAINED_RESULT_MAX_BYTES),
    );
    call(
        &mut bench,
        "keep",
        json!({}),
        &text(RETAINED_RESULT_MAX_BYTES + 1),
    );
    let large = json!({"text": text(RETAINED_INPUT_MAX_BYTES)});
    call(&mut bench, "keep", large, "small");
    assert_eq!(outputs(&bench), [text(RETAINED_RESULT_MAX_BYTES)]);
}

#[test]
fn a_call_that_nobody_answered_is_not_retained() {
    let mut bench = bench();
    bench.turn(calls(&[("keep", json!({}))]));
    bench.advance();
    assert_eq!(bench.expire_at(TIMEOUT), 1);
    bench.call_plan();
    assert!(bench.state.retained.is_empty());
}

#[test]
fn of_many_the_last_are_retained() {
    let mut bench = bench();
    for n in 0..RETAINED_CALLS_MAX + 3 {
        call(&mut bench, "keep", json!({"n": n}), &n.to_string());
    }
    let outputs = outputs(&bench);
    assert_eq!(outputs.len(), RETAINED_CALLS_MAX);
    assert_eq!(outputs.first(), Some(&"3"));
}
