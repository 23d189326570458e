//! Output schemas: native, by a hidden tool, and not at all.

use std::sync::Arc;

use runloom_protocol::event::Event;
use runloom_protocol::outcome::{
    EnforcementMechanism, ErrorClass, RunError, RunResult, StructuredOutput,
};
use runloom_protocol::spec::{Enforcement, OutputSchema};
use serde_json::{Value, json};

use super::bench::{Bench, Turn, calls, plan, says};
use crate::run::{Step, guard};
use runloom_ports::model::{Message, StructuredSupport};
use runloom_schema::SchemaCache;

const GOOD: &str = r#"{"n":1}"#;

fn bench(support: StructuredSupport, enforcement: Enforcement) -> Bench {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let validator = SchemaCache::new().compile(&schema).unwrap();
    let Value::Object(schema) = schema else {
        panic!("an object");
    };
    let output = OutputSchema {
        name: "output".to_owned(),
        schema,
        enforcement,
    };
    Bench::new(plan(|plan| {
        plan.output = Some((Arc::new(output), validator));
        plan.primary.capabilities.structured = support;
    }))
}

fn by(mechanism: EnforcementMechanism, turn: Turn) -> Turn {
    let structured = StructuredOutput {
        schema_requested: true,
        schema_enforced: mechanism != EnforcementMechanism::None,
        enforcement_mechanism: mechanism,
        unconstrained_fallback_occurred: false,
    };
    Turn { structured, ..turn }
}

fn result(bench: &mut Bench) -> RunResult {
    match bench.end() {
        Event::Result(result) => result,
        other => panic!("expected a result, not {other:?}"),
    }
}

fn error(bench: &mut Bench) -> RunError {
    match bench.end() {
        Event::Error(error) => error,
        other => panic!("expected an error, not {other:?}"),
    }
}

#[test]
fn a_native_answer_that_fits_is_enforced() {
    for enforcement in [Enforcement::BestEffort, Enforcement::Strict] {
        let mut bench = bench(StructuredSupport::Native, enforcement);
        assert!(
            !bench
                .turn(by(EnforcementMechanism::NativeSchema, says(GOOD)))
                .force_output
        );
        let structured = result(&mut bench).structured_output;
        assert!(structured.schema_requested && structured.schema_enforced);
        assert_eq!(
            structured.enforcement_mechanism,
            EnforcementMechanism::NativeSchema
        );
    }
}

#[test]
fn an_answer_that_does_not_fit_fails_only_when_strict() {
    for text in ["not json", r#"{"n":"1"}"#, "[]", ""] {
        let mut lenient = bench(StructuredSupport::Native, Enforcement::BestEffort);
        lenient.turn(by(EnforcementMechanism::NativeSchema, says(text)));
        assert!(
            !result(&mut lenient).structured_output.schema_enforced,
            "{text:?}"
        );
        let mut strict = bench(StructuredSupport::Native, Enforcement::Strict);
        strict.turn(by(EnforcementMechanism::NativeSchema, says(text)));
        let failed = error(&mut strict);
        assert_eq!(failed.error_class, ErrorClass::StructuredOutputNotEnforced);
        let partial = Some(text.to_owned()).filter(|text| !text.is_empty());
        assert_eq!(failed.partial_text, partial);
    }
}

#[test]
fn plain_text_forces_the_hidden_tool_once() {
    let mut bench = bench(StructuredSupport::SyntheticTool, Enforcement::Strict);
    assert!(
        !bench
            .turn(by(EnforcementMechanism::None, says("it is one")))
            .force_output
    );
    let report = Message::User {
        text: guard::REPORT.into(),
    };
    assert_eq!(*bench.last_message(), report);
    let forced = bench.turn(by(EnforcementMechanism::SyntheticTool, says(GOOD)));
    assert!(forced.force_output);
    assert_eq!(forced.turn, 2);
    let result = result(&mut bench);
    assert_eq!((result.text.as_str(), result.turns), (GOOD, 2));
    assert!(result.structured_output.schema_enforced);
}

#[test]
fn the_hidden_tool_on_the_first_turn_needs_no_forcing() {
    let mut bench = bench(StructuredSupport::SyntheticTool, Enforcement::BestEffort);
    bench.turn(by(EnforcementMechanism::SyntheticTool, says(GOOD)));
    assert_eq!(result(&mut bench).turns, 1);
}

#[test]
fn a_forced_turn_that_is_not_obeyed_is_not_repeated() {
    let mut lenient = bench(StructuredSupport::SyntheticTool, Enforcement::BestEffort);
    let mut strict = bench(StructuredSupport::SyntheticTool, Enforcement::Strict);
    for bench in [&mut lenient, &mut strict] {
        bench.turn(by(EnforcementMechanism::None, says("one")));
        assert!(
            bench
                .turn(by(EnforcementMechanism::None, says("still one")))
                .force_output
        );
    }
    let result = result(&mut lenient);
    assert!(!result.structured_output.schema_enforced);
    assert_eq!(result.text, "still one");
    assert_eq!(
        error(&mut strict).error_class,
        ErrorClass::StructuredOutputNotEnforced
    );
}

#[test]
fn tools_come_before_the_forced_turn() {
    let mut bench = bench(StructuredSupport::SyntheticTool, Enforcement::BestEffort);
    assert!(!bench.turn(calls(&[("look", json!({}))])).force_output);
    bench.answer_all();
    assert!(
        !bench
            .turn(by(EnforcementMechanism::None, says("found")))
            .force_output
    );
    assert!(
        bench
            .turn(by(EnforcementMechanism::SyntheticTool, says(GOOD)))
            .force_output
    );
    assert_eq!(result(&mut bench).turns, 3);
}

#[test]
fn a_broken_turn_is_not_followed_by_a_forced_one() {
    let mut bench = bench(StructuredSupport::SyntheticTool, Enforcement::BestEffort);
    bench.turn(by(
        EnforcementMechanism::None,
        says("hal").ends("max_tokens"),
    ));
    assert_eq!(error(&mut bench).error_class, ErrorClass::Truncation);
}

#[test]
fn the_finalise_turn_may_be_followed_by_a_forced_one() {
    let mut bench = bench(StructuredSupport::SyntheticTool, Enforcement::Strict);
    let plan = Arc::get_mut(&mut bench.state.plan).expect("nobody else has the plan");
    plan.max_tool_turns = 1;
    bench.turn(calls(&[("look", json!({}))]));
    bench.answer_all();
    // Not obeyed: its calls leave neither results nor private items behind.
    let mut stubborn = calls(&[("look", json!({}))]);
    stubborn.text = "one".to_owned();
    stubborn.state = Some(runloom_ports::model::ProviderState {
        owner: "bench/1".to_owned(),
        model: "bench".to_owned(),
        items: serde_json::value::to_raw_value(&json!([{"call": "look"}]))
            .unwrap()
            .into(),
    });
    assert!(!bench.turn(stubborn).tools_enabled);
    let plan = bench.call_plan();
    assert!(plan.force_output && !plan.tools_enabled);
    let unanswered = |message: &&Message| match message {
        Message::Assistant { text, calls, state } => {
            &**text == "one" && (!calls.is_empty() || state.is_some())
        }
        _ => false,
    };
    assert_eq!(bench.state.messages.iter().find(unanswered), None);
    bench.turn(by(EnforcementMechanism::SyntheticTool, says(GOOD)));
    assert!(result(&mut bench).structured_output.schema_enforced);
}

#[test]
fn a_model_without_schemas_is_refused_when_strict_and_says_so_otherwise() {
    let mut strict = bench(StructuredSupport::None, Enforcement::Strict);
    let failed = error(&mut strict);
    assert_eq!(failed.error_class, ErrorClass::StructuredOutputNotSupported);
    assert_eq!(failed.turns, 0);
    let mut lenient = bench(StructuredSupport::None, Enforcement::BestEffort);
    lenient.turn(by(EnforcementMechanism::None, says("one")));
    let structured = result(&mut lenient).structured_output;
    assert!(structured.schema_requested && !structured.schema_enforced);
    assert_eq!(structured.enforcement_mechanism, EnforcementMechanism::None);
}

#[test]
fn a_fallback_in_any_turn_is_remembered() {
    let mut bench = bench(StructuredSupport::Native, Enforcement::BestEffort);
    let mut fallback = calls(&[("look", json!({}))]);
    fallback.structured.unconstrained_fallback_occurred = true;
    bench.turn(fallback);
    assert!(matches!(bench.answer_all(), Step::CallModel(_)));
    bench.turn(by(EnforcementMechanism::NativeSchema, says(GOOD)));
    assert!(
        result(&mut bench)
            .structured_output
            .unconstrained_fallback_occurred
    );
}

#[test]
fn without_a_schema_nothing_is_requested() {
    let mut bench = Bench::new(plan(|_| {}));
    bench.turn(says("plain"));
    assert_eq!(
        result(&mut bench).structured_output,
        StructuredOutput::default()
    );
}
