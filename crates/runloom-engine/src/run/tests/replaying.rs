//! A log that was tampered with, or written by a version that decided otherwise, is found out.

use runloom_protocol::event::{Event, ToolBudgetExceeded};
use serde_json::json;

use super::bench::{Bench, calls, plan, says};
use crate::run::{Step, replay};

/// A run that asks for `look` twice, of which it may have one, and ends.
fn recorded() -> (std::sync::Arc<crate::run::Plan>, Vec<Event>) {
    let plan = plan(|plan| {
        plan.tool_budgets = std::sync::Arc::new([("look".to_owned(), 1)].into());
    });
    let mut bench = Bench::new(std::sync::Arc::clone(&plan));
    for turn in [
        calls(&[("look", json!({"n": 1})), ("look", json!({"n": 2}))]),
        says("done"),
    ] {
        let Step::CallModel(call) = bench.answer_all() else {
            panic!("the model is called");
        };
        bench.delta("d");
        bench.complete(call, turn);
    }
    let Step::Finish(event) = bench.answer_all() else {
        panic!("the run ends");
    };
    bench.record(event);
    (plan, bench.events)
}

#[test]
fn a_run_is_decided_the_same_way_again() {
    let (plan, events) = recorded();
    let replayed = replay(plan, &events).unwrap();
    assert_eq!(replayed.events, events.len() as u64);
    assert!(replayed.decided >= 5, "{replayed:?}");
}

#[test]
fn a_guard_that_did_not_step_in_is_found() {
    let (plan, mut events) = recorded();
    let place = events
        .iter()
        .position(|event| matches!(event, Event::ToolBudgetExceeded(_)))
        .unwrap();
    events.remove(place);
    let divergence = replay(plan, &events).unwrap_err();
    assert_eq!(divergence.seq, place as u64 + 1);
    assert!(
        divergence.expected.contains("tool_budget_exceeded"),
        "{divergence:?}"
    );
}

#[test]
fn a_guard_that_stepped_in_for_nothing_is_found() {
    let (plan, mut events) = recorded();
    let place = events.len() - 1;
    let exceeded = ToolBudgetExceeded {
        tool: "look".to_owned(),
        max_calls: 1,
        call_index: 2,
    };
    events.insert(place, Event::ToolBudgetExceeded(exceeded));
    assert_eq!(replay(plan, &events).unwrap_err().seq, place as u64 + 1);
}

#[test]
fn another_answer_than_the_models_is_found() {
    let (plan, mut events) = recorded();
    if let Some(Event::Result(result)) = events.last_mut() {
        result.text = "something else".to_owned();
    }
    let divergence = replay(plan, &events).unwrap_err();
    assert_eq!(divergence.seq, events.len() as u64);
    assert!(divergence.expected.contains("done"), "{divergence:?}");
}

#[test]
fn a_log_without_an_end_or_with_more_than_one_is_found() {
    let (plan, events) = recorded();
    let cut = &events[..events.len() - 1];
    let divergence = replay(std::sync::Arc::clone(&plan), cut).unwrap_err();
    assert_eq!(divergence.recorded, None);
    let twice = [events.as_slice(), &events[events.len() - 1..]].concat();
    assert!(replay(plan, &twice).is_err());
}
