//! Streams of the Responses API, by table.

use serde_json::{Value, json};

use super::*;
use runloom_protocol::outcome::{ErrorClass, Tokens};

fn decoder() -> Decoder {
    Decoder::new(RequestInfo {
        model: "gpt-5.5".to_owned(),
        show_thinking: true,
        structured: StructuredOutput::default(),
    })
}

fn hear(frames: &[Value]) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = decoder();
    let mut out = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.event(None, frame.to_string().as_bytes(), &mut out) {
            return (out, Some(error));
        }
    }
    (out, None)
}

fn done(out: &[ModelEvent]) -> &Done {
    match out.last() {
        Some(ModelEvent::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

fn texts(out: &[ModelEvent]) -> String {
    let texts = out.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}]})
}

fn item_done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn end(kind: &str, response: Value) -> Value {
    json!({"type": format!("response.{kind}"), "response": response})
}

#[test]
fn emits_text_that_came_without_deltas_once() {
    let (out, _) = hear(&[
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "a"}),
        item_done(0, message("a")),
        item_done(1, message("b")),
        end("completed", json!({"output": [message("a"), message("b")]})),
    ]);
    assert_eq!(texts(&out), "ab");
    let (out, _) = hear(&[end("completed", json!({"output": [message("whole")]}))]);
    assert_eq!(texts(&out), "whole");
    assert!(done(&out).state.is_some());
}

#[test]
fn keeps_items_verbatim_and_in_order() {
    let reasoning = json!({"type": "reasoning", "id": "r", "encrypted_content": "x", "summary": [], "new_field": [1.50]});
    let (out, _) = hear(&[
        item_done(0, reasoning.clone()),
        item_done(1, json!({"type": "a_kind_of_tomorrow", "z": 1, "a": 2})),
        item_done(2, message("a")),
        end("completed", json!({})),
    ]);
    let state = done(&out).state.clone().unwrap();
    assert_eq!(
        (state.owner.as_str(), state.model.as_str()),
        (OWNER, "gpt-5.5")
    );
    let wanted = format!(
        "[{reasoning},{{\"type\":\"a_kind_of_tomorrow\",\"z\":1,\"a\":2}},{}]",
        message("a")
    );
    assert_eq!(state.items.get(), wanted);
}

#[test]
fn an_incomplete_response_has_no_state_and_no_cut_call() {
    let table = [
        (json!({"reason": "max_output_tokens"}), "max_tokens"),
        (json!({"reason": "content_filter"}), "content_filter"),
        (json!({"reason": "Other"}), "other"),
        (json!(null), "max_tokens"),
    ];
    for (details, wanted) in table {
        let half = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"x", "status": "incomplete"});
        let (out, error) = hear(&[
            item_done(0, half),
            end("incomplete", json!({"incomplete_details": details})),
        ]);
        assert!(error.is_none());
        assert_eq!(done(&out).finish_reason, wanted);
        assert!(done(&out).state.is_none());
        assert_eq!(out.len(), 1);
    }
}

#[test]
fn a_failed_response_reports_its_usage_first() {
    let (out, error) = hear(&[end(
        "failed",
        json!({
            "error": {"code": "rate_limit_exceeded", "message": "slow down"},
            "usage": {"input_tokens": 3, "output_tokens": 1},
        }),
    )]);
    assert!(matches!(
        out[..],
        [ModelEvent::Usage(Tokens {
            input_tokens: 3,
            output_tokens: 1,
            ..
        })]
    ));
    let error = error.unwrap();
    assert_eq!(error.class, ErrorClass::RateLimit);
    assert_eq!(error.api_code.as_deref(), Some("rate_limit_exceeded"));
}

#[test]
fn parses_flat_and_nested_error_frames() {
    for frame in [
        json!({"type": "error", "code": "context_length_exceeded", "message": "too long", "param": null}),
        json!({"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}}),
    ] {
        let error = hear(&[frame]).1.unwrap();
        assert_eq!(error.class, ErrorClass::ContextWindow);
        assert_eq!(error.message, "too long");
    }
}

#[test]
fn separates_summary_parts() {
    let part =
        |index| json!({"type": "response.reasoning_summary_part.added", "summary_index": index});
    let piece = |text| json!({"type": "response.reasoning_summary_text.delta", "delta": text});
    let (out, _) = hear(&[part(0), piece("a"), part(1), piece("b")]);
    let thinking = out.iter().filter_map(|event| match event {
        ModelEvent::Thinking(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(thinking.collect::<String>(), "a\n\nb");
}

#[test]
fn ignores_unknown_events_and_falls_back_to_the_name() {
    let (out, error) = hear(&[
        json!({"type": "response.of_tomorrow", "delta": {"x": 1}, "item": 7}),
        json!({"no": "type"}),
    ]);
    assert!(out.is_empty() && error.is_none());
    let mut decoder = decoder();
    let mut out = Vec::new();
    let name = Some("response.output_text.delta");
    decoder.event(name, b"{\"delta\":\"a\"}", &mut out).unwrap();
    assert_eq!(texts(&out), "a");
}

#[test]
fn drops_all_calls_if_one_is_malformed() {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": arguments});
    let (out, error) = hear(&[
        item_done(0, call("a", "{}")),
        item_done(1, call("b", "{\"x\":")),
        end(
            "completed",
            json!({"usage": {"input_tokens": 3, "output_tokens": 1}}),
        ),
    ]);
    assert!(error.is_none());
    assert!(matches!(
        out[..],
        [ModelEvent::Usage(_), ModelEvent::Done(_)]
    ));
    assert_eq!(done(&out).finish_reason, "malformed_function_call");
    assert!(done(&out).state.is_none());
}
