//! Loop detection.

use std::sync::Arc;

use runloom_protocol::event::{Event, LoopDetected};
use runloom_protocol::spec::LoopDetection;
use serde_json::{Value, json};

use super::bench::{Bench, calls, plan, says};
use crate::run::{Step, guard, signature_of};
use runloom_ports::model::Message;

fn bench(consecutive: u32, hard: u32) -> Bench {
    Bench::new(plan(|plan| {
        plan.loop_detection = LoopDetection::On { consecutive, hard };
    }))
}

fn look() -> super::bench::Turn {
    calls(&[("look", json!({"at": 1}))])
}

fn detected(bench: &Bench) -> Vec<(u32, bool)> {
    bench
        .events
        .iter()
        .filter_map(|event| match event {
            Event::LoopDetected(found) => Some((found.consecutive_count, found.hard_cutoff)),
            _ => None,
        })
        .collect()
}

fn signature(calls: &[(&str, Value)]) -> [u8; 32] {
    signature_of(calls.iter().map(|(name, input)| (*name, input)))
}

#[test]
fn a_signature_is_a_multiset_of_names_and_canonical_arguments() {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let ab = parse(r#"{"a":1,"b":{"x":[1,2],"y":null}}"#);
    let ba = parse(r#"{"b":{"y":null,"x":[1,2]},"a":1}"#);
    let same = [
        (
            [("f", ab.clone()), ("g", json!({}))],
            [("g", json!({})), ("f", ba.clone())],
        ),
        (
            [("f", ab.clone()), ("f", ba.clone())],
            [("f", ba), ("f", ab)],
        ),
    ];
    for (one, other) in same {
        assert_eq!(signature(&one), signature(&other));
    }
    let all_different = [
        signature(&[("f", json!({"a": 1}))]),
        signature(&[("f", json!({"a": 2}))]),
        signature(&[("g", json!({"a": 1}))]),
        signature(&[("f", json!({"a": 1})), ("f", json!({"a": 1}))]),
        signature(&[("f", json!({"a": [1, 2]}))]),
        signature(&[("f", json!({"a": [2, 1]}))]),
        signature(&[("f", json!({"a": "1"}))]),
        signature(&[("f", json!({}))]),
    ];
    for (i, one) in all_different.iter().enumerate() {
        assert!(!all_different[i + 1..].contains(one), "signature {i}");
    }
}

#[test]
fn equal_turns_below_the_threshold_are_executed() {
    let mut bench = bench(3, 6);
    for _ in 0..2 {
        bench.turn(look());
        bench.answer_all();
    }
    assert_eq!(detected(&bench), []);
    assert_eq!(bench.user_texts(), ["hello"]);
}

#[test]
fn the_threshold_skips_the_batch_tells_why_and_nudges() {
    let mut bench = bench(2, 5);
    bench.turn(look());
    bench.answer_all();
    let before = bench.events.len();
    bench.turn(look());
    let plan = bench.call_plan();
    assert!(plan.tools_enabled);
    let shown = ["assistant_message", "tool_result", "loop_detected"];
    assert_eq!(bench.kinds(before), shown);
    let Some(Event::LoopDetected(found)) = bench.events.last() else {
        panic!("no loop_detected");
    };
    let expected = LoopDetected {
        consecutive_count: 2,
        hard_cutoff: false,
        tools: vec!["look".to_owned()],
    };
    assert_eq!(*found, expected);
    let told = bench.tool_results(1);
    assert_eq!(told[0].1, guard::REPEATED);
    assert!(told[0].2);
    assert_eq!(*bench.last_message(), user(guard::NUDGE));
}

#[test]
fn order_of_calls_and_of_keys_does_not_hide_a_loop() {
    let mut bench = bench(2, 3);
    let one: Value = serde_json::from_str(r#"{"a":1,"b":2}"#).unwrap();
    let other: Value = serde_json::from_str(r#"{"b":2,"a":1}"#).unwrap();
    bench.turn(calls(&[("look", one), ("find", json!({}))]));
    bench.answer_all();
    bench.turn(calls(&[("find", json!({})), ("look", other)]));
    bench.call_plan();
    assert_eq!(detected(&bench), [(2, false)]);
    let Some(Event::LoopDetected(found)) = bench.events.last() else {
        panic!("no loop_detected");
    };
    assert_eq!(found.tools, ["find", "look"]);
}

#[test]
fn between_the_thresholds_turns_are_skipped_and_nudged_without_another_event() {
    let mut bench = bench(2, 5);
    bench.turn(look());
    bench.answer_all();
    for turn in 2..=4 {
        let before = bench.events.len();
        bench.turn(look());
        assert!(bench.call_plan().tools_enabled);
        assert!(!bench.kinds(before).contains(&"local_tool_call"));
        let nudges = |text: &&&str| **text == guard::NUDGE;
        let texts = bench.user_texts();
        assert_eq!(texts.iter().filter(nudges).count(), turn - 1);
    }
    assert_eq!(detected(&bench), [(2, false)]);
}

#[test]
fn the_hard_cutoff_leads_to_one_turn_without_tools() {
    let mut bench = bench(2, 3);
    bench.turn(look());
    bench.answer_all();
    bench.turn(look());
    bench.turn(look());
    let plan = bench.call_plan();
    assert!(!plan.tools_enabled);
    assert_eq!(detected(&bench), [(2, false), (3, true)]);
    assert_eq!(*bench.last_message(), user(guard::FINALISE));
    bench.turn(says("enough"));
    assert!(matches!(bench.end(), Event::Result(result) if result.text == "enough"));
}

#[test]
fn a_model_that_calls_tools_when_it_must_not_is_not_obeyed() {
    let mut bench = bench(2, 3);
    bench.turn(look());
    bench.answer_all();
    bench.turn(look());
    bench.turn(look());
    let mut stubborn = look();
    stubborn.text = "one more look".to_owned();
    bench.turn(stubborn);
    assert!(matches!(bench.end(), Event::Result(result) if result.text == "one more look"));
    let Message::Assistant { calls, .. } = bench.last_message() else {
        panic!("the last word is the model's");
    };
    assert!(calls.is_empty());
}

#[test]
fn another_turn_ends_the_streak_and_a_new_streak_is_told_again() {
    let mut bench = bench(2, 9);
    let other = || calls(&[("find", json!({}))]);
    for turn in [look(), look(), other(), look(), look()] {
        bench.turn(turn);
        bench.answer_all();
    }
    assert_eq!(detected(&bench), [(2, false), (2, false)]);
}

#[test]
fn skipped_calls_do_not_count_against_a_budget() {
    let mut bench = Bench::new(plan(|plan| {
        plan.loop_detection = LoopDetection::On {
            consecutive: 2,
            hard: 9,
        };
        plan.tool_budgets = Arc::new([("look".to_owned(), 2)].into());
    }));
    for turn in [look(), look(), look(), calls(&[("look", json!({"at": 2}))])] {
        bench.turn(turn);
        bench.answer_all();
    }
    assert!(!bench.kinds(0).contains(&"tool_budget_exceeded"));
    let asked = |kind: &&&str| **kind == "local_tool_call";
    assert_eq!(bench.kinds(0).iter().filter(asked).count(), 2);
}

#[test]
fn switched_off_nothing_is_ever_a_loop() {
    let mut bench = Bench::new(plan(|plan| plan.loop_detection = LoopDetection::Off));
    for _ in 0..12 {
        bench.turn(look());
        assert!(matches!(bench.answer_all(), Step::CallModel(plan) if plan.tools_enabled));
    }
    assert_eq!(detected(&bench), []);
}

fn user(text: &str) -> Message {
    let text = text.to_owned();
    Message::User { text: text.into() }
}
