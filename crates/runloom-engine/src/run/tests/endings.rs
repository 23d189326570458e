//! Terminal events: texts, usage and cost.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::{ErrorClass, RunCancelled, Tokens};
use serde_json::json;

use super::bench::{Bench, Turn, calls, plan, says};
use crate::run::{Price, Spent, Step, cancelled, failed, failure, guard};
use runloom_ports::model::{Message, ModelError};

fn tokens(input: u64, cached: u64, reasoning: u64, output: u64) -> Tokens {
    Tokens {
        input_tokens: input,
        cached_tokens: cached,
        reasoning_tokens: reasoning,
        output_tokens: output,
    }
}

fn end_of(turn: Turn) -> Event {
    let mut bench = Bench::new(plan(|_| {}));
    bench.turn(turn);
    bench.end()
}

#[test]
fn finish_reasons_decide_between_result_and_error() {
    let cases = [
        ("end_turn", "hi", None),
        ("stop_sequence", "hi", None),
        ("some_vendor_word", "hi", None),
        ("end_turn", "", None),
        ("refusal", "I would rather not", None),
        ("refusal", "", Some(ErrorClass::Unknown)),
        ("max_tokens", "hal", Some(ErrorClass::Truncation)),
        ("max_tokens", "", Some(ErrorClass::Truncation)),
        ("content_filter", "hi", Some(ErrorClass::Unknown)),
    ];
    for (finish, text, expected) in cases {
        match (end_of(says(text).ends(finish)), expected) {
            (Event::Result(result), None) => assert_eq!(result.text, text),
            (Event::Error(error), Some(class)) => {
                assert_eq!((error.code, error.error_class), (class, class), "{finish}");
                assert_eq!(error.finish_reason.as_deref(), Some(finish));
                let partial = Some(text).filter(|text| !text.is_empty());
                assert_eq!(error.partial_text.as_deref(), partial);
                assert_eq!(error.turns, 1);
            }
            (event, _) => panic!("{finish} with {text:?} became {event:?}"),
        }
    }
}

#[test]
fn calls_of_a_turn_that_was_cut_off_are_not_executed() {
    for finish in ["max_tokens", "content_filter"] {
        let event = end_of(calls(&[("send", json!({}))]).ends(finish));
        assert!(
            matches!(event, Event::Error(_)),
            "{finish} became {event:?}"
        );
    }
}

#[test]
fn a_truncated_run_has_a_failure_reason() {
    let Event::Error(error) = end_of(says("hal").ends("max_tokens")) else {
        panic!("not truncated");
    };
    let reason = failure(&error);
    assert_eq!(reason.error_class, ErrorClass::Truncation);
    assert_eq!(reason.finish_reason.as_deref(), Some("max_tokens"));
}

#[test]
fn a_malformed_call_gets_one_more_chance() {
    let malformed = || says("").ends("malformed_function_call");
    let mut bench = Bench::new(plan(|_| {}));
    bench.turn(malformed());
    assert_eq!(bench.call_plan().turn, 2);
    let nudge = Message::User {
        text: guard::MALFORMED.into(),
    };
    assert_eq!(*bench.last_message(), nudge);
    let mut again = Bench::new(plan(|_| {}));
    again.turn(malformed());
    again.turn(says("in words then"));
    assert!(matches!(again.end(), Event::Result(_)));
    bench.turn(malformed());
    let Event::Error(error) = bench.end() else {
        panic!("a second malformed call is an error");
    };
    assert_eq!(
        error.finish_reason.as_deref(),
        Some("malformed_function_call")
    );
    assert_eq!(error.turns, 2);
}

#[test]
fn tokens_are_sums_over_every_turn() {
    let mut bench = Bench::new(plan(|_| {}));
    let mut first = calls(&[("look", json!({}))]);
    first.tokens = tokens(100, 40, 5, 20);
    bench.turn(first);
    bench.answer_all();
    let mut second = says("done");
    second.tokens = tokens(200, 150, 0, 10);
    bench.turn(second);
    let Event::Result(result) = bench.end() else {
        panic!("no result");
    };
    assert_eq!(result.tokens, tokens(300, 190, 5, 30));
    assert_eq!((result.turns, bench.state.tool_calls), (2, 1));
    assert_eq!((result.ok, result.subtype.as_str()), (true, "success"));
    assert_eq!(result.cost_usd, None);
}

#[test]
fn cached_input_has_its_own_price() {
    let price = Price {
        input: 2.0,
        output: 10.0,
        cache_read: 0.5,
    };
    let million = 1_000_000;
    let cases = [
        (tokens(million, 0, 0, 0), 2.0),
        (tokens(million, million, 0, 0), 0.5),
        (tokens(2 * million, million, 0, million / 2), 7.5),
        (tokens(0, 0, million, million), 10.0),
        (tokens(0, 0, 0, 0), 0.0),
    ];
    for (tokens, dollars) in cases {
        assert_eq!(price.pico(&tokens) as f64 / 1e12, dollars, "{tokens:?}");
    }
}

fn spent_run() -> Bench {
    let mut bench = Bench::new(plan(|plan| {
        plan.primary.price = Some(Price {
            input: 1.0,
            output: 1.0,
            cache_read: 1.0,
        });
    }));
    let mut first = calls(&[("look", json!({}))]);
    first.tokens = tokens(500_000, 0, 0, 0);
    bench.turn(first);
    assert!(matches!(bench.answer_all(), Step::CallModel(_)));
    bench
}

#[test]
fn a_failing_turn_is_counted_with_what_it_had_spent_and_said() {
    let bench = spent_run();
    let mut error = ModelError::new(ErrorClass::Overloaded, "try later");
    error.api_status = Some(529);
    error.api_code = Some("overloaded_error".to_owned());
    let spent = Spent {
        tokens: tokens(400_000, 0, 0, 100_000),
        turns: 1,
        partial_text: Some("so f".to_owned()),
    };
    let Event::Error(event) = failed(&bench.state, &error, &spent) else {
        panic!("no error");
    };
    assert_eq!(event.tokens, tokens(900_000, 0, 0, 100_000));
    assert_eq!((event.turns, event.cost_usd), (2, Some(1.0)));
    assert_eq!(event.partial_text.as_deref(), Some("so f"));
    assert_eq!((event.api_status, event.retryable), (Some(529), Some(true)));
    assert_eq!(event.api_code.as_deref(), Some("overloaded_error"));
}

#[test]
fn a_cancel_keeps_its_receipt_and_adds_the_sums() {
    let bench = spent_run();
    let receipt = RunCancelled {
        subagents: None,
        reason: "user".to_owned(),
        requested_at: Some("then".to_owned()),
        stopped_at: Some("now".to_owned()),
        interrupted: vec!["model".to_owned()],
        tokens: Tokens::default(),
        turns: 0,
        model: None,
        cost_usd: None,
    };
    let spent = Spent {
        tokens: tokens(500_000, 0, 0, 0),
        turns: 1,
        partial_text: None,
    };
    let Event::Cancelled(event) = cancelled(&bench.state, receipt, &spent) else {
        panic!("not cancelled");
    };
    assert_eq!(event.tokens, tokens(1_000_000, 0, 0, 0));
    assert_eq!((event.turns, event.cost_usd), (2, Some(1.0)));
    assert_eq!(event.interrupted, ["model"]);
    assert_eq!(event.requested_at.as_deref(), Some("then"));
    assert_eq!(
        event.model.map(|model| model.id).as_deref(),
        Some("platform:bench")
    );
}
