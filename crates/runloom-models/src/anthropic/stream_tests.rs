//! Streams of the Messages API, by table.

use proptest::prelude::*;
use runloom_protocol::outcome::{ErrorClass, StructuredOutput};
use serde_json::json;

use super::*;
use crate::structured::HiddenTool;

fn info() -> RequestInfo {
    RequestInfo {
        model: "claude-sonnet-4-5".into(),
        show_thinking: true,
        hidden: None,
        structured: StructuredOutput::default(),
    }
}

fn with_hidden_tool() -> RequestInfo {
    let schema =
        serde_json::from_value(json!({"name": "o", "schema": {"type": "object"}})).unwrap();
    RequestInfo {
        hidden: Some(HiddenTool::new("final_report", &schema, &[])),
        structured: structured::NOT_CALLED,
        ..info()
    }
}

/// The events of a stream and its error.
#[derive(Debug, Default)]
struct Outcome {
    text: String,
    thinking: String,
    calls: Vec<CallRequest>,
    usage: Tokens,
    done: Option<Done>,
    error: Option<ModelError>,
}

fn run(info: RequestInfo, frames: &[Value]) -> Outcome {
    let mut decoder = Decoder::new(info);
    let mut events = Vec::new();
    let mut error = None;
    for frame in frames {
        if let Err(failure) = decoder.event(
            frame["type"].as_str(),
            frame.to_string().as_bytes(),
            &mut events,
        ) {
            error = Some(failure);
            break;
        }
    }
    if error.is_none() {
        error = decoder.end(&mut events).err();
    }
    let mut outcome = Outcome {
        error,
        ..Default::default()
    };
    for event in events {
        assert!(outcome.done.is_none(), "nothing follows the end");
        match event {
            ModelEvent::Text(text) => outcome.text.push_str(&text),
            ModelEvent::Thinking(text) => outcome.thinking.push_str(&text),
            ModelEvent::Call(call) => outcome.calls.push(call),
            ModelEvent::Usage(usage) => outcome.usage = usage,
            ModelEvent::Done(done) => outcome.done = Some(done),
        }
    }
    outcome
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude", "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1}}})
}

fn block(index: u64, content: Value, deltas: &[Value]) -> Vec<Value> {
    let mut frames =
        vec![json!({"type": "content_block_start", "index": index, "content_block": content})];
    frames.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    frames.push(json!({"type": "content_block_stop", "index": index}));
    frames
}

fn text(index: u64, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|text| json!({"type": "text_delta", "text": text}))
        .collect();
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

fn tool(index: u64, name: &str, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
        .collect();
    block(
        index,
        json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}}),
        &deltas,
    )
}

fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
               "usage": {"output_tokens": 42, "output_tokens_details": {"thinking_tokens": 12}}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn decodes_text_and_token_counts() {
    let ping = vec![
        json!({"type": "ping"}),
        json!({"type": "event_of_next_year", "x": 1}),
    ];
    let outcome = run(
        info(),
        &[
            vec![start()],
            ping,
            text(0, &["Hel", "lo"]),
            stop("end_turn"),
        ]
        .concat(),
    );
    assert_eq!(outcome.text, "Hello");
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "end_turn");
    assert!(done.state.is_none());
    assert_eq!(
        outcome.usage,
        Tokens {
            input_tokens: 115,
            cached_tokens: 100,
            reasoning_tokens: 12,
            output_tokens: 42
        }
    );
}

#[test]
fn assembles_tool_input() {
    let frames = [
        vec![start()],
        tool(0, "search", &["{\"q\": ", "\"x\"}"]),
        tool(1, "now", &[]),
        tool(2, "later", &["", " "]),
        stop("tool_use"),
    ];
    let outcome = run(info(), &frames.concat());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let calls: Vec<(&str, &str, &Value)> = outcome
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), &call.input))
        .collect();
    assert_eq!(
        calls,
        [
            ("toolu_0", "search", &json!({"q": "x"})),
            ("toolu_1", "now", &json!({})),
            ("toolu_2", "later", &json!({}))
        ]
    );
    assert_eq!(outcome.done.unwrap().finish_reason, "tool_use");
}

#[test]
fn keeps_thinking_and_shows_it_on_request() {
    let thinking = block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "Let me "}),
            json!({"type": "thinking_delta", "thinking": "see."}),
            json!({"type": "signature_delta", "signature": "c2ln"}),
        ],
    );
    let redacted = block(
        1,
        json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}),
        &[],
    );
    let frames = [
        vec![start()],
        thinking,
        redacted,
        text(2, &["Wait."]),
        tool(3, "search", &["{\"q\":1}"]),
        stop("tool_use"),
    ]
    .concat();
    let outcome = run(info(), &frames);
    assert_eq!(outcome.thinking, "Let me see.");
    let state = outcome.done.unwrap().state.unwrap();
    assert_eq!(
        (state.owner.as_str(), state.model.as_str()),
        ("anthropic/1", "claude-sonnet-4-5")
    );
    let items: Value = serde_json::from_str(state.items.get()).unwrap();
    assert_eq!(
        items,
        json!([
            {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="},
            {"type": "text", "text": "Wait."},
            {"type": "tool_use", "id": "toolu_3", "name": "search", "input": {"q": 1}},
        ])
    );
    let quiet = RequestInfo {
        show_thinking: false,
        ..info()
    };
    let outcome = run(quiet, &frames);
    assert_eq!(outcome.thinking, "");
    assert!(outcome.done.unwrap().state.is_some());
}

#[test]
fn hidden_tool_input_becomes_the_text() {
    let frames = [
        vec![start()],
        text(0, &["Here it is:"]),
        tool(1, "final_report", &["{\"a\":", " 1}"]),
        stop("tool_use"),
    ];
    let outcome = run(with_hidden_tool(), &frames.concat());
    assert_eq!(outcome.text, r#"{"a":1}"#);
    assert!(outcome.calls.is_empty());
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "end_turn");
    assert_eq!(done.structured, structured::BY_HIDDEN_TOOL);
    assert!(done.state.is_none());
}

#[test]
fn reports_that_the_hidden_tool_was_not_called() {
    let outcome = run(
        with_hidden_tool(),
        &[vec![start()], text(0, &["No", " report"]), stop("end_turn")].concat(),
    );
    assert_eq!(outcome.text, "No report");
    assert_eq!(outcome.done.unwrap().structured, structured::NOT_CALLED);
}

#[test]
fn ignores_the_hidden_tool_beside_other_calls() {
    let frames = [
        vec![start()],
        text(0, &["Both."]),
        tool(1, "final_report", &["{\"a\":1}"]),
        tool(2, "search", &["{}"]),
        stop("tool_use"),
    ];
    let outcome = run(with_hidden_tool(), &frames.concat());
    assert_eq!(outcome.text, "Both.");
    assert_eq!(outcome.calls.len(), 1);
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "tool_use");
    assert_eq!(done.structured, structured::NOT_CALLED);
}

#[test]
fn shows_incomplete_hidden_tool_input() {
    let frames = [
        vec![start()],
        tool(0, "final_report", &["{\"a\": \"lo"]),
        stop("max_tokens"),
    ];
    let outcome = run(with_hidden_tool(), &frames.concat());
    assert_eq!(outcome.text, "{\"a\": \"lo");
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "max_tokens");
    assert!(!done.structured.schema_enforced);
}

#[test]
fn rejects_a_malformed_call_unless_cut_by_the_limit() {
    let frames = |reason| {
        [
            vec![start()],
            tool(0, "search", &["{\"q\": \"x"]),
            stop(reason),
        ]
        .concat()
    };
    let error = run(info(), &frames("tool_use")).error.unwrap();
    assert_eq!(
        error.finish_reason.as_deref(),
        Some("malformed_function_call")
    );
    let outcome = run(info(), &frames("max_tokens"));
    assert!(outcome.calls.is_empty());
    assert_eq!(outcome.done.unwrap().finish_reason, "max_tokens");
}

#[test]
fn maps_stop_reasons() {
    for (vendor, canonical_word) in [
        ("end_turn", "end_turn"),
        ("tool_use", "tool_use"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "end_turn"),
        ("Something_New", "something_new"),
    ] {
        assert_eq!(canonical(vendor), canonical_word);
    }
}

#[test]
fn classifies_errors_inside_the_stream() {
    for (kind, class, retryable) in [
        ("overloaded_error", ErrorClass::Overloaded, true),
        ("rate_limit_error", ErrorClass::RateLimit, true),
        ("api_error", ErrorClass::Server, true),
        ("timeout_error", ErrorClass::Timeout, true),
        ("invalid_request_error", ErrorClass::InvalidRequest, false),
        ("authentication_error", ErrorClass::Auth, false),
        ("permission_error", ErrorClass::Auth, false),
        ("error_of_next_year", ErrorClass::Server, true),
    ] {
        let failure = json!({"type": "error", "error": {"type": kind, "message": "Said so."}});
        let outcome = run(
            info(),
            &[vec![start()], text(0, &["Hel"]), vec![failure]].concat(),
        );
        assert_eq!(outcome.text, "Hel");
        let error = outcome.error.unwrap();
        assert_eq!(
            (error.class, error.retryable, error.api_code.as_deref()),
            (class, retryable, Some(kind))
        );
        assert_eq!(error.message, "Said so.");
    }
}

#[test]
fn an_incomplete_stream_shows_held_text_and_fails() {
    let outcome = run(
        with_hidden_tool(),
        &[vec![start()], text(0, &["Half an"])].concat(),
    );
    assert_eq!(outcome.text, "Half an");
    assert_eq!(outcome.usage.input_tokens, 115);
    assert!(outcome.done.is_none());
    assert_eq!(outcome.error.unwrap().class, ErrorClass::Server);
}

#[test]
fn ignores_frames_after_the_end() {
    let frames = [
        vec![start()],
        text(0, &["Hi"]),
        stop("end_turn"),
        text(1, &["!"]),
        stop("tool_use"),
    ];
    let outcome = run(info(), &frames.concat());
    assert_eq!(outcome.text, "Hi");
    assert_eq!(outcome.done.unwrap().finish_reason, "end_turn");
}

proptest! {
    #[test]
    fn no_sequence_of_frames_panics_or_ends_twice(
        picks in prop::collection::vec(0_usize..14, 0..40),
        indexes in prop::collection::vec(0_u64..4, 40),
        report in any::<bool>(),
    ) {
        let kinds = [
            start(),
            json!({"type": "content_block_start", "content_block": {"type": "text", "text": "a"}}),
            json!({"type": "content_block_start", "content_block": {"type": "thinking"}}),
            json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "final_report"}}),
            json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": 3}}),
            json!({"type": "content_block_start", "content_block": {"type": "novelty"}}),
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}}),
            json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
            json!({"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s"}}),
            json!({"type": "content_block_delta", "delta": {"type": "novelty"}}),
            json!({"type": "content_block_stop"}),
            stop("tool_use")[0].clone(),
            stop("")[1].clone(),
            json!({"type": "ping"}),
        ];
        let frames: Vec<Value> = picks.iter().zip(&indexes).map(|(pick, index)| {
            let mut frame = kinds[*pick].clone();
            frame["index"] = json!(index);
            frame
        }).collect();
        let outcome = run(if report { with_hidden_tool() } else { info() }, &frames);
        prop_assert!(outcome.done.is_some() != outcome.error.is_some());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        let mut decoder = Decoder::new(info());
        let _ = decoder.event(None, &data, &mut out);
        prop_assert!(decoder.end(&mut out).is_err());
    }
}
