//! Tool budgets, tool turns and output tokens.

use std::collections::BTreeMap;

use runloom_protocol::event::{Event, ToolBudgetExceeded};
use runloom_protocol::outcome::{ErrorClass, Tokens};
use runloom_protocol::spec::{LoopDetection, ToolBudget};
use serde_json::json;

use super::bench::{Bench, Turn, calls, plan, says};
use crate::run::{Step, default_tool_budgets, guard};
use runloom_ports::model::Message;

fn given(entries: &[(&str, u32)]) -> BTreeMap<String, ToolBudget> {
    let own = |(tool, max_calls): &(&str, u32)| {
        let max_calls = *max_calls;
        ((*tool).to_owned(), ToolBudget { max_calls })
    };
    entries.iter().map(own).collect()
}

fn limited(entries: &[(&str, u32)]) -> Bench {
    let budgets = default_tool_budgets(Some(&given(entries)));
    Bench::new(plan(|plan| plan.tool_budgets = budgets))
}

fn exceeded(bench: &Bench) -> Vec<(String, u32, u32)> {
    let all = bench.events.iter();
    all.filter_map(|event| match event {
        Event::ToolBudgetExceeded(ToolBudgetExceeded {
            tool,
            max_calls,
            call_index,
        }) => Some((tool.clone(), *max_calls, *call_index)),
        _ => None,
    })
    .collect()
}

pub(super) fn costing(turn: Turn, input_tokens: u64, output_tokens: u64) -> Turn {
    let tokens = Tokens {
        input_tokens,
        output_tokens,
        ..Tokens::default()
    };
    Turn { tokens, ..turn }
}

#[test]
fn defaults_hold_when_nothing_is_given() {
    let budgets = default_tool_budgets(None);
    assert_eq!(budgets.len(), 12);
    let expected = [
        ("recall", 4),
        ("traverse", 3),
        ("hive_consult_ontology", 4),
        ("hive_search_deals", 5),
        ("hive_search_issues", 5),
    ];
    for (tool, calls) in expected {
        assert_eq!(budgets.get(tool), Some(&calls), "{tool}");
    }
}

#[test]
fn given_entries_are_layered_over_the_defaults_and_nothing_clears_them() {
    let layered = default_tool_budgets(Some(&given(&[("recall", 9), ("look", 1)])));
    assert_eq!(layered["recall"], 9);
    assert_eq!(layered["look"], 1);
    assert_eq!(layered["traverse"], 3);
    assert!(default_tool_budgets(Some(&BTreeMap::new())).is_empty());
}

#[test]
fn a_call_past_its_budget_is_answered_and_announced_but_not_executed() {
    let mut bench = limited(&[("look", 1)]);
    bench.turn(calls(&[("look", json!({"at": 1}))]));
    bench.answer_all();
    let before = bench.events.len();
    bench.turn(calls(&[("look", json!({"at": 2}))]));
    bench.call_plan();
    let shown = ["assistant_message", "tool_result", "tool_budget_exceeded"];
    assert_eq!(bench.kinds(before), shown);
    assert_eq!(exceeded(&bench), [("look".to_owned(), 1, 2)]);
    let (id, text, is_error) = bench.tool_results(1).remove(0);
    assert_eq!(id, "vendor_2_1");
    assert!(
        is_error && text.contains("budget exceeded") && text.contains("finalize"),
        "{text}"
    );
    let Event::ToolResult(result) = &bench.events[before + 1] else {
        panic!("no tool_result");
    };
    assert_eq!((result.ok, &result.result), (false, &text));
}

#[test]
fn a_budget_of_zero_switches_a_tool_off() {
    let mut bench = limited(&[("send", 0)]);
    bench.turn(calls(&[("send", json!({}))]));
    bench.call_plan();
    assert_eq!(exceeded(&bench), [("send".to_owned(), 0, 1)]);
    assert!(!bench.kinds(0).contains(&"local_tool_call"));
}

#[test]
fn several_calls_of_one_turn_are_counted_one_by_one() {
    let mut bench = limited(&[("look", 2)]);
    let before = bench.events.len();
    let at = |n: u32| ("look", json!({"at": n}));
    bench.turn(calls(&[at(1), ("send", json!({})), at(2), at(3), at(4)]));
    bench.answer_all();
    let four = [("look".to_owned(), 2, 3), ("look".to_owned(), 2, 4)];
    assert_eq!(exceeded(&bench), four);
    let asked = |kind: &&&str| **kind == "local_tool_call";
    assert_eq!(bench.kinds(before).iter().filter(asked).count(), 3);
    let order: Vec<String> = bench.tool_results(5).into_iter().map(|r| r.0).collect();
    let places: Vec<String> = (1..=5).map(|n| format!("vendor_1_{n}")).collect();
    assert_eq!(order, places, "results stand in the model's order");
}

#[test]
fn refused_calls_keep_counting() {
    let mut bench = limited(&[("look", 1)]);
    for at in 1..=3 {
        bench.turn(calls(&[("look", json!({"at": at}))]));
        bench.answer_all();
    }
    let expected = [("look".to_owned(), 1, 2), ("look".to_owned(), 1, 3)];
    assert_eq!(exceeded(&bench), expected);
}

#[test]
fn after_the_last_tool_turn_there_is_one_turn_without_tools() {
    for max in [1, 3] {
        let mut bench = Bench::new(plan(|plan| {
            plan.max_tool_turns = max;
            plan.loop_detection = LoopDetection::Off;
        }));
        for _ in 0..max {
            assert!(bench.turn(calls(&[("look", json!({}))])).tools_enabled);
            bench.answer_all();
        }
        let finalise = Message::User {
            text: guard::FINALISE.into(),
        };
        assert_eq!(*bench.last_message(), finalise);
        let plan = bench.turn(calls(&[("look", json!({}))]));
        assert!(!plan.tools_enabled);
        assert!(matches!(bench.end(), Event::Result(_)));
        assert_eq!(bench.state.tool_turns, max);
    }
}

#[test]
fn what_is_left_of_the_output_tokens_bounds_the_next_call() {
    let mut bench = Bench::new(plan(|plan| plan.budgets.max_output_tokens = Some(100)));
    let first = bench.turn(costing(calls(&[("look", json!({}))]), 5, 70));
    assert_eq!(first.max_output_tokens, Some(100));
    assert!(matches!(bench.answer_all(), Step::CallModel(_)));
    let second = bench.turn(costing(calls(&[("find", json!({}))]), 5, 30));
    assert_eq!(second.max_output_tokens, Some(30));
    bench.answer_all();
    let Event::Error(error) = bench.end() else {
        panic!("the budget is used up");
    };
    assert_eq!(error.error_class, ErrorClass::BudgetExceeded);
    assert!(error.error.contains("maxOutputTokens"), "{}", error.error);
    assert_eq!((error.turns, error.tokens.output_tokens), (2, 100));
}

#[test]
fn an_answer_within_its_last_tokens_is_a_result() {
    let mut bench = Bench::new(plan(|plan| plan.budgets.max_output_tokens = Some(10)));
    bench.turn(costing(says("done"), 1, 10));
    assert!(matches!(bench.end(), Event::Result(_)));
}
