//! Another model takes over: when, what it changes, and that the log alone says who speaks.

use std::sync::Arc;

use runloom_protocol::event::Event;
use runloom_protocol::outcome::{ErrorClass, Tokens};
use runloom_protocol::spec::{Enforcement, OutputSchema};
use serde_json::value::RawValue;
use serde_json::{Map, json};

use super::bench::{Bench, Turn, calls, model_facts, plan, says};
use super::facts::facts;
use crate::run::{Note, Plan, Price, Step, failed, next};
use runloom_ports::model::{Message, ModelError, ProviderState, StructuredSupport};
use runloom_schema::SchemaCache;

const DEAR: Price = Price {
    input: 10.0,
    output: 100.0,
    cache_read: 1.0,
};
const CHEAP: Price = Price {
    input: 1.0,
    output: 10.0,
    cache_read: 0.1,
};

fn with_spare(change: impl FnOnce(&mut Plan)) -> Bench {
    Bench::new(plan(|plan| {
        plan.fallback = Some(model_facts("spare"));
        change(plan);
    }))
}

fn used(input_tokens: u64, output_tokens: u64) -> Tokens {
    Tokens {
        input_tokens,
        output_tokens,
        ..Tokens::default()
    }
}

/// The models of the turns, in order.
fn voices(bench: &Bench) -> Vec<&str> {
    let spoken = bench.events.iter().filter_map(|event| match event {
        Event::AssistantMessage(message) => message.model.as_deref(),
        _ => None,
    });
    spoken.collect()
}

#[test]
fn a_model_that_is_out_of_service_gives_way_to_the_fallback_for_the_rest_of_the_run() {
    let mut bench = with_spare(|_| {});
    bench.turn(calls(&[("look", json!({}))]));
    bench.answer_all();
    assert!(bench.fails(ErrorClass::Overloaded));
    let Some(Event::ModelFallback(moved)) = bench.events.last() else {
        panic!("{:?}", bench.events.last());
    };
    assert_eq!(moved.error_class, ErrorClass::Overloaded);
    assert_eq!(moved.model.vendor_model_id, "spare");
    assert_eq!(moved.primary_model_id, "platform:bench");
    assert_eq!(moved.fallback_model_id, "platform:spare");
    // The turn is the same one: what failed did not complete.
    assert_eq!(bench.turn(calls(&[("send", json!({}))])).turn, 2);
    bench.answer_all();
    bench.turn(says("done"));
    assert_eq!(
        voices(&bench),
        ["platform:bench", "platform:spare", "platform:spare"]
    );
    let Event::Result(result) = bench.end() else {
        panic!("no result");
    };
    assert_eq!(
        (result.model.id.as_str(), result.turns),
        ("platform:spare", 3)
    );
}

#[test]
fn only_failures_of_the_provider_make_it_give_way() {
    use ErrorClass::{
        Auth, BudgetExceeded, ContextWindow, InvalidRequest, LocalTimeout, Overloaded, RateLimit,
        Server, StructuredOutputSchemaRejected, Timeout, Truncation, Unknown, UpstreamDeadline,
    };
    for class in [Overloaded, Server, Timeout, UpstreamDeadline] {
        assert!(with_spare(|_| {}).fails(class), "{class:?}");
        assert!(!Bench::new(plan(|_| {})).fails(class), "{class:?}");
    }
    for class in [
        RateLimit,
        ContextWindow,
        Truncation,
        InvalidRequest,
        Auth,
        LocalTimeout,
        BudgetExceeded,
        StructuredOutputSchemaRejected,
        Unknown,
    ] {
        assert!(!with_spare(|_| {}).fails(class), "{class:?}");
    }
}

#[test]
fn an_answer_that_somebody_has_seen_a_part_of_is_not_given_to_another_model() {
    let mut bench = with_spare(|_| {});
    bench.call_plan();
    bench.delta("hal");
    let error = ModelError::new(ErrorClass::Server, "it breaks off");
    assert_eq!(crate::run::fall_back(&bench.state, &error), None);
    // Once it is taken back, nobody has seen anything.
    bench.flush();
    bench.crash();
    assert!(bench.fails(ErrorClass::Server));
}

#[test]
fn a_fallback_that_fails_as_well_ends_the_run_with_its_own_error() {
    let mut bench = with_spare(|_| {});
    assert!(bench.fails(ErrorClass::Timeout));
    assert!(!bench.fails(ErrorClass::Server), "there is no third one");
    let error = ModelError::new(ErrorClass::Server, "the spare is broken");
    let Event::Error(error) = failed(&bench.state, &error, &Default::default()) else {
        panic!("no error");
    };
    assert_eq!(error.error, "the spare is broken");
    assert_eq!(error.model.id, "platform:spare");
}

#[test]
fn whoever_takes_the_run_over_calls_the_model_that_the_log_says() {
    let mut bench = with_spare(|_| {});
    bench.call_plan();
    bench.flush();
    assert!(bench.fails(ErrorClass::Server));
    bench.crash();
    assert!(!bench.state.fell_back(), "it was never durable");
    assert!(bench.fails(ErrorClass::Server));
    bench.flush();
    bench.crash();
    assert!(bench.state.fell_back());
    bench.turn(says("done"));
    bench.flush();
    assert_eq!(voices(&bench), ["platform:spare"]);
    assert_eq!(facts(&bench.folded()), facts(&bench.state));
}

#[test]
fn another_vendor_is_told_neither_private_items_nor_ids_of_the_first() {
    let mut bench = with_spare(|_| {});
    for _ in 0..2 {
        let items = RawValue::from_string(r#"["secret"]"#.to_owned()).unwrap();
        let state = Some(ProviderState {
            owner: "vendor/1".to_owned(),
            model: "bench".to_owned(),
            items: Arc::from(items),
        });
        let turn = calls(&[("look", json!({"n": 1})), ("find", json!({}))]);
        bench.turn(Turn { state, ..turn });
        bench.answer_all();
    }
    assert!(bench.fails(ErrorClass::Server));
    let told = format!("{:?}", bench.state.messages);
    assert!(
        !told.contains("vendor") && !told.contains("secret"),
        "{told}"
    );
    let ids: Vec<&str> = bench
        .state
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        ids,
        ["tu_bench_1", "tu_bench_2", "tu_bench_3", "tu_bench_4"]
    );
    super::random::assert_legal_conversation(bench.state.messages.iter());
    bench.flush();
    assert_eq!(facts(&bench.folded()), facts(&bench.state));
}

#[test]
fn each_model_is_paid_for_at_its_own_price() {
    let mut bench = with_spare(|plan| {
        plan.primary.price = Some(DEAR);
        plan.fallback.as_mut().unwrap().price = Some(CHEAP);
        plan.budgets.max_cost_usd = Some(1_000.0);
    });
    let dear = bench.call_plan().bid.unwrap();
    let tokens = used(1_000_000, 100_000);
    bench.turn(Turn {
        tokens,
        ..calls(&[("look", json!({}))])
    });
    bench.answer_all();
    // The failed attempt was the first model's, too.
    bench.note(Note::Attempt {
        tokens: used(100_000, 0),
        lost: 0,
    });
    assert!(bench.fails(ErrorClass::Overloaded));
    let cheap = bench.call_plan().bid.unwrap();
    assert!(cheap.worst(8_192).0 * 9 < dear.worst(8_192).0 * 2);
    bench.turn(Turn {
        tokens,
        ..says("done")
    });
    assert_eq!(bench.state.spent().0, 21_000_000 + 2_000_000);
    bench.flush();
    let Event::Result(result) = bench.end() else {
        panic!("no result");
    };
    assert_eq!(result.cost_usd, Some(23.0));
    assert_eq!(result.tokens, used(2_100_000, 200_000));
    assert_eq!(bench.folded().spent(), bench.state.spent());
}

#[test]
fn the_cost_is_unknown_only_when_a_model_that_was_used_has_no_price() {
    let cost = |primary: Option<Price>, fallback: Option<Price>, before: Tokens| {
        let mut bench = with_spare(|plan| {
            plan.primary.price = primary;
            plan.fallback.as_mut().unwrap().price = fallback;
        });
        bench.call_plan();
        bench.note(Note::Attempt {
            tokens: before,
            lost: 0,
        });
        assert!(bench.fails(ErrorClass::Server));
        bench.turn(Turn {
            tokens: used(1_000_000, 0),
            ..says("done")
        });
        match bench.end() {
            Event::Result(result) => result.cost_usd,
            other => panic!("{other:?}"),
        }
    };
    let some = used(1_000_000, 0);
    assert_eq!(cost(Some(DEAR), Some(CHEAP), some), Some(11.0));
    assert_eq!(cost(None, Some(CHEAP), Tokens::default()), Some(1.0));
    assert_eq!(cost(None, Some(CHEAP), some), None);
    assert_eq!(cost(Some(DEAR), None, some), None);
}

#[test]
fn a_fallback_that_cannot_keep_a_strict_schema_is_not_asked() {
    let run = |support, enforcement| {
        let mut bench = with_spare(|plan| {
            plan.primary.capabilities.structured = StructuredSupport::Native;
            plan.fallback.as_mut().unwrap().capabilities.structured = support;
            let schema = OutputSchema {
                name: "output".to_owned(),
                schema: Map::new(),
                enforcement,
            };
            let validator = SchemaCache::new().compile(&json!({})).unwrap();
            plan.output = Some((Arc::new(schema), validator));
        });
        bench.fails(ErrorClass::Overloaded)
    };
    assert!(!run(StructuredSupport::None, Enforcement::Strict));
    assert!(run(StructuredSupport::None, Enforcement::BestEffort));
    assert!(run(StructuredSupport::SyntheticTool, Enforcement::Strict));
}

#[test]
fn a_run_that_began_on_the_fallback_goes_on_with_it_whatever_the_log_says() {
    let mut bench = with_spare(|_| {});
    assert!(bench.fails(ErrorClass::Server));
    bench.flush();
    let moved = plan(|plan| plan.primary = model_facts("spare"));
    bench.state = crate::run::RunState::new(moved);
    bench.crash();
    assert_eq!(bench.state.current_model().model.id, "platform:spare");
    assert!(matches!(next(&bench.state), Step::CallModel(_)));
}
