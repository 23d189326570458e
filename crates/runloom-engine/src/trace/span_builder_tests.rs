//! Tables of the trail: records in, spans out.

use runloom_protocol::event::{
    Event, LocalToolResultIn, ModelFallback, Started, TextDelta, ToolCall, ToolResult,
};
use runloom_protocol::outcome::ErrorClass;
use serde_json::json;

use super::*;

fn trail() -> SpanBuilder {
    SpanBuilder::new(TracedRun {
        run: RunId::from_suffix("0198c0ffee0070008000000000000001"),
        workspace: "acme".to_owned(),
        parent: None,
        session: None,
        agent: None,
        name: Some("helper".to_owned()),
        model: ModelInfo {
            id: "oa/gpt".to_owned(),
            provider: "azure-openai".to_owned(),
            vendor_model_id: "gpt".to_owned(),
            reasoning_effort: None,
        },
        wants_json: true,
        accepted: Nanos(10),
    })
}

fn see(trail: &mut SpanBuilder, events: impl IntoIterator<Item = (u64, Event)>) {
    for (at, event) in events {
        trail.see(&Record::Event(event), Nanos(at));
    }
}

fn message(turn: u32) -> Event {
    Event::AssistantMessage(AssistantMessage {
        text: "secret answer".to_owned(),
        turn,
        finish_reason: Some("end_turn".to_owned()),
        tool_calls: Vec::new(),
        model: None,
        ..AssistantMessage::default()
    })
}

fn delta() -> Event {
    Event::AssistantDelta(TextDelta {
        text: "secret answer".to_owned(),
    })
}

fn called(id: &str) -> Event {
    Event::ToolCall(ToolCall {
        tool_use_id: id.to_owned(),
        name: "look".to_owned(),
        input: json!({"secret": "argument"}),
    })
}

fn answered(id: &str, ok: bool) -> Event {
    Event::ToolResult(ToolResult {
        tool_use_id: id.to_owned(),
        name: "look".to_owned(),
        ok,
        result: "secret result".to_owned(),
        summary: "secret summary".to_owned(),
        metadata: None,
        duration_ms: None,
    })
}

#[test]
fn a_turn_lasts_from_what_came_before_it_and_marks_its_first_word() {
    let mut trail = trail();
    see(
        &mut trail,
        [
            (20, Event::Started(Started {})),
            (50, delta()),
            (60, delta()),
            (90, message(0)),
        ],
    );
    trail.see(
        &Record::Note(Note::Turn {
            tokens: Tokens {
                input_tokens: 5,
                ..Tokens::default()
            },
            call_ids: Vec::new(),
            state: None,
            structured: Default::default(),
        }),
        Nanos(90),
    );
    let spans = trail.spans();
    let [chat] = spans.as_slice() else {
        panic!("{spans:#?}");
    };
    assert_eq!((chat.start, chat.end), (Nanos(20), Nanos(90)));
    assert_eq!(chat.marks, [(Nanos(50), names::FIRST_WORD)]);
    let has = |key, value| chat.attributes.contains(&(key, value));
    assert!(has(names::PROVIDER, text("azure.ai.openai")));
    assert!(has(names::OUTPUT_TYPE, text("json")));
    assert!(has(names::INPUT_TOKENS, Attribute::Count(5)));
}

#[test]
fn calls_beside_each_other_have_their_own_times() {
    let mut trail = trail();
    see(
        &mut trail,
        [
            (20, Event::Started(Started {})),
            (30, called("tu_1")),
            (31, called("tu_2")),
            (40, answered("tu_2", true)),
            (70, answered("tu_1", false)),
        ],
    );
    let spans = trail.spans();
    let times = spans.iter().map(|span| (span.start.0, span.end.0));
    assert_eq!(times.collect::<Vec<_>>(), [(31, 40), (30, 70)]);
    assert_eq!(spans[0].error, None);
    assert_eq!(spans[1].error.as_deref(), Some(""));
}

#[test]
fn a_call_that_a_guard_answered_leaves_no_span() {
    let mut trail = trail();
    let result = LocalToolResultIn {
        tool_use_id: "tu_9".to_owned(),
        output: None,
        error: Some("no".to_owned()),
    };
    see(
        &mut trail,
        [
            (30, Event::LocalToolResultIn(result)),
            (31, answered("tu_8", false)),
        ],
    );
    assert_eq!(trail.spans(), []);
}

#[test]
fn nothing_that_was_said_is_in_a_trace() {
    let mut trail = trail();
    see(
        &mut trail,
        [
            (20, Event::Started(Started {})),
            (50, delta()),
            (60, message(0)),
            (61, called("tu_1")),
            (62, answered("tu_1", false)),
            (63, message(1)),
        ],
    );
    trail.flush();
    let spans = trail.spans();
    assert_eq!(spans.len(), 3);
    assert!(!format!("{spans:?}").contains("secret"), "{spans:#?}");
}

#[test]
fn a_run_without_end_does_not_fill_the_memory() {
    let mut trail = trail();
    for turn in 0..3_000 {
        see(
            &mut trail,
            [(30, called("tu_1")), (31, answered("tu_1", true))],
        );
        see(&mut trail, [(32, message(turn))]);
    }
    assert_eq!(trail.spans.len(), MOST_SPANS);
    assert!(trail.dropped > 0);
}

#[test]
fn the_same_part_of_a_run_is_the_same_span_in_every_process() {
    let (mut one, mut other) = (trail(), trail());
    see(
        &mut one,
        [(30, called("tu_1")), (31, answered("tu_1", true))],
    );
    see(
        &mut other,
        [(30, called("tu_1")), (35, answered("tu_1", true))],
    );
    let (one, other) = (one.spans(), other.spans());
    assert_eq!(one[0].id, other[0].id);
    assert_ne!(one[0].id, span_of(&RunId::from_suffix("x"), "tu_1"));
}

#[test]
fn a_model_that_was_given_up_answers_for_its_own_time() {
    let mut trail = trail();
    let spare = ModelInfo {
        id: "spare".to_owned(),
        vendor_model_id: "spare".to_owned(),
        ..trail.who.model.clone()
    };
    let moved = ModelFallback {
        error_class: ErrorClass::Overloaded,
        model: spare,
        primary_model_id: "oa/gpt".to_owned(),
        fallback_model_id: "spare".to_owned(),
    };
    see(
        &mut trail,
        [
            (20, Event::Started(Started {})),
            (80, Event::ModelFallback(moved)),
            (90, message(0)),
        ],
    );
    trail.flush();
    let spans = trail.spans();
    let told = spans.iter().map(|span| {
        (
            span.name.as_str(),
            span.start.0,
            span.end.0,
            span.error.is_some(),
        )
    });
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [("chat gpt", 20, 80, true), ("chat spare", 80, 90, false)]
    );
    assert_ne!(spans[0].id, spans[1].id);
}
