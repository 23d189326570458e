//! Calls: who is asked, in which order, and what an answer changes.

use runloom_protocol::event::{Event, LocalToolResultIn};
use runloom_protocol::spec::ToolAnswer;
use serde_json::{Value, json};

use super::bench::{Bench, TIMEOUT, calls, plan};
use crate::run::{Step, TIMED_OUT, answer, expire};

fn bench() -> Bench {
    Bench::new(plan(|_| {}))
}

/// Names of the tools that clients were asked to execute, grouped by the moment they were asked.
fn asked_names(bench: &Bench) -> Vec<&str> {
    let events = bench.events.iter();
    events
        .filter_map(|event| match event {
            Event::LocalToolCall(call) => Some(call.name.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn an_unknown_tool_is_answered_with_the_known_ones() {
    let mut bench = bench();
    let before = bench.events.len();
    bench.turn(calls(&[("fly", json!({}))]));
    assert!(bench.call_plan().tools_enabled);
    assert_eq!(
        bench.kinds(before)[1..],
        ["assistant_message", "tool_result"]
    );
    let (_, text, is_error) = bench.tool_results(1).remove(0);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert!(is_error);
    assert_eq!(told["error"], "unknown_tool");
    assert_eq!(told["tools"], json!(["look", "find", "send", "typed"]));
}

#[test]
fn arguments_that_break_the_schema_are_given_back_and_not_executed() {
    for (input, fits) in [
        (json!({"n": 1}), true),
        (json!({"n": "1"}), false),
        (json!({}), false),
        (json!([]), false),
    ] {
        let mut bench = bench();
        bench.turn(calls(&[("typed", input.clone())]));
        let step = bench.advance();
        assert_eq!(matches!(step, Step::Wait { .. }), fits, "{input}");
        assert_eq!(asked_names(&bench).is_empty(), !fits, "{input}");
        if !fits {
            let (_, text, is_error) = bench.tool_results(1).remove(0);
            let told: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (is_error, &told["error"]),
                (true, &json!("tool_input_invalid"))
            );
        }
    }
}

#[test]
fn read_only_calls_are_published_together_and_awaited_together() {
    let mut bench = bench();
    bench.turn(calls(&[
        ("look", json!({})),
        ("find", json!({})),
        ("look", json!({"a": 1})),
    ]));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert_eq!(bench.asked(), ["tu_1_1", "tu_1_2", "tu_1_3"]);
    for (id, waits) in [("tu_1_2", true), ("tu_1_3", true), ("tu_1_1", false)] {
        assert!(bench.answer(id, id));
        assert_eq!(matches!(bench.advance(), Step::Wait { .. }), waits, "{id}");
    }
    let results: Vec<_> = bench
        .tool_results(3)
        .into_iter()
        .map(|r| (r.0, r.1))
        .collect();
    let pair = |n: u32| (format!("vendor_1_{n}"), format!("tu_1_{n}"));
    assert_eq!(results, [pair(1), pair(2), pair(3)]);
}

#[test]
fn other_calls_are_published_one_at_a_time_in_the_models_order() {
    let mut bench = bench();
    bench.turn(calls(&[
        ("send", json!({"to": "a"})),
        ("look", json!({})),
        ("typed", json!({"n": 1})),
        ("find", json!({})),
        ("send", json!({"to": "b"})),
    ]));
    let mut rounds = Vec::new();
    while let Step::Wait { .. } = bench.advance() {
        let asked = bench.asked();
        asked.iter().for_each(|id| assert!(bench.answer(id, "ok")));
        rounds.push(asked);
    }
    let expected: [&[&str]; 4] = [&["tu_1_2", "tu_1_4"], &["tu_1_1"], &["tu_1_3"], &["tu_1_5"]];
    assert_eq!(rounds, expected);
}

#[test]
fn one_bad_call_does_not_stop_the_others() {
    let mut bench = bench();
    bench.turn(calls(&[
        ("typed", json!({})),
        ("fly", json!({})),
        ("send", json!({})),
    ]));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert_eq!(bench.asked(), ["tu_1_3"]);
    assert!(matches!(bench.answer_all(), Step::CallModel(_)));
    let errors: Vec<bool> = bench.tool_results(3).into_iter().map(|r| r.2).collect();
    assert_eq!(errors, [true, true, false]);
}

#[test]
fn a_clients_error_is_told_to_the_model_as_one() {
    let mut bench = bench();
    bench.turn(calls(&[("send", json!({}))]));
    bench.advance();
    let said = ToolAnswer::Error("no network".to_owned());
    let event = answer(&bench.state, "tu_1_1", &said).unwrap();
    let expected = Event::LocalToolResultIn(LocalToolResultIn {
        tool_use_id: "tu_1_1".to_owned(),
        output: None,
        error: Some("no network".to_owned()),
    });
    assert_eq!(event, expected);
    bench.record(event);
    let told = ("vendor_1_1".to_owned(), "no network".to_owned(), true);
    assert_eq!(bench.tool_results(1), [told]);
}

#[test]
fn an_empty_result_is_a_result() {
    let mut bench = bench();
    bench.turn(calls(&[("send", json!({}))]));
    bench.advance();
    assert!(bench.answer("tu_1_1", ""));
    let told = ("vendor_1_1".to_owned(), String::new(), false);
    assert_eq!(bench.tool_results(1), [told]);
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut bench = bench();
    assert!(!bench.answer("tu_1_1", "too early"));
    bench.turn(calls(&[
        ("send", json!({"n": 1})),
        ("send", json!({"n": 2})),
    ]));
    bench.advance();
    assert!(!bench.answer("tu_1_2", "not asked yet"));
    assert!(!bench.answer("tu_9_9", "unknown"));
    assert!(bench.answer("tu_1_1", "once"));
    assert!(!bench.answer("tu_1_1", "twice"));
    bench.answer_all();
    assert!(!bench.answer("tu_1_2", "late"));
    let texts: Vec<String> = bench.tool_results(2).into_iter().map(|r| r.1).collect();
    assert_eq!(texts, ["once", "done"]);
}

#[test]
fn a_call_times_out_at_its_deadline_and_not_before() {
    let mut bench = bench();
    bench.now = 500;
    bench.turn(calls(&[("send", json!({}))]));
    let Step::Wait { deadline } = bench.advance() else {
        panic!("nobody waits");
    };
    assert_eq!(deadline, 500 + TIMEOUT);
    assert_eq!(bench.expire_at(deadline - 1), 0);
    assert_eq!(bench.expire_at(deadline), 1);
    assert_eq!(expire(&bench.state, deadline + 1), []);
    assert!(!bench.answer("tu_1_1", "late"));
    assert!(matches!(bench.advance(), Step::CallModel(_)));
    let told = ("vendor_1_1".to_owned(), TIMED_OUT.to_owned(), true);
    assert_eq!(bench.tool_results(1), [told]);
}

#[test]
fn only_the_calls_that_are_late_time_out() {
    let mut bench = bench();
    bench.turn(calls(&[
        ("look", json!({})),
        ("find", json!({})),
        ("send", json!({})),
    ]));
    bench.advance();
    assert!(bench.answer("tu_1_1", "in time"));
    assert_eq!(bench.expire_at(TIMEOUT), 1);
    let Step::Wait { deadline } = bench.advance() else {
        panic!("send is asked next");
    };
    assert_eq!(deadline, 2 * TIMEOUT, "its time begins when it is asked");
    assert_eq!(bench.asked(), ["tu_1_3"]);
}

#[test]
fn the_event_echoes_what_the_client_needs() {
    let mut bench = bench();
    bench.turn(calls(&[("typed", json!({"n": 7}))]));
    bench.advance();
    let Some(Event::LocalToolCall(call)) = bench.events.last() else {
        panic!("no local_tool_call");
    };
    assert_eq!(
        (call.kind.as_str(), &call.args),
        ("local", &json!({"n": 7}))
    );
    assert_eq!(call.tool_use_id, "tu_1_1");
}
