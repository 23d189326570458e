//! Streams of Gemini, by table.

use proptest::prelude::*;
use runloom_protocol::outcome::StructuredOutput;
use serde_json::json;

use super::*;
use crate::structured::HiddenTool;

fn info() -> RequestInfo {
    RequestInfo {
        model: "gemini-3-pro-preview".into(),
        show_thinking: true,
        hidden: None,
        structured: StructuredOutput::default(),
        turn: 3,
    }
}

fn with_hidden_tool() -> RequestInfo {
    let schema =
        serde_json::from_value(json!({"name": "o", "schema": {"type": "object"}})).unwrap();
    RequestInfo {
        hidden: Some(HiddenTool::new("set_model_response", &schema, &[])),
        structured: structured::NOT_CALLED,
        ..info()
    }
}

#[derive(Debug, Default)]
struct Outcome {
    text: String,
    thinking: String,
    calls: Vec<CallRequest>,
    usage: Tokens,
    done: Option<Done>,
    error: Option<ModelError>,
}

fn run(info: RequestInfo, chunks: &[Value]) -> Outcome {
    let mut decoder = Decoder::new(info);
    let mut events = Vec::new();
    let mut error = None;
    for chunk in chunks {
        if let Err(failure) = decoder.event(None, chunk.to_string().as_bytes(), &mut events) {
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

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], "modelVersion": "m"})
}

fn stop(reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model"}, "finishReason": reason, "index": 0}],
           "usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5,
                             "thoughtsTokenCount": 7, "toolUsePromptTokenCount": 2, "totalTokenCount": 24}})
}

#[test]
fn decodes_text_and_token_counts() {
    let chunks = [
        parts(json!([{"text": "Hel"}])),
        parts(json!([{"text": "lo"}, {"novelty": 1}])),
        json!({}),
        stop("STOP"),
    ];
    let outcome = run(info(), &chunks);
    assert_eq!(outcome.text, "Hello");
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "end_turn");
    assert!(done.state.is_none());
    assert_eq!(
        outcome.usage,
        Tokens {
            input_tokens: 12,
            cached_tokens: 4,
            reasoning_tokens: 7,
            output_tokens: 12
        }
    );
}

#[test]
fn corrects_token_counts_by_the_total() {
    let usage = |total| Usage {
        prompt_token_count: Some(10),
        cached_content_token_count: Some(4),
        candidates_token_count: Some(8),
        thoughts_token_count: Some(5),
        tool_use_prompt_token_count: None,
        total_token_count: Some(total),
    };
    for (total, input, output) in [(23, 10, 13), (27, 14, 13), (18, 10, 8), (99, 10, 13)] {
        let tokens = tokens(&usage(total));
        assert_eq!(
            (tokens.input_tokens, tokens.output_tokens),
            (input, output),
            "total {total}"
        );
    }
}

#[test]
fn keeps_signed_parts_and_shows_thoughts_on_request() {
    let chunks = [
        parts(json!([{"text": "Hmm.", "thought": true}])),
        parts(json!([{"text": "One "}])),
        parts(json!([{"text": "moment."}])),
        parts(
            json!([{"functionCall": {"id": "a1", "name": "search", "args": {"q": "x"}}, "thoughtSignature": "czE="},
                     {"functionCall": {"id": "a2", "name": "now"}}]),
        ),
        parts(json!([{"text": "", "thoughtSignature": "czI="}])),
        parts(json!([{"text": ""}])),
        stop("STOP"),
    ];
    let outcome = run(info(), &chunks);
    assert_eq!(
        (outcome.text.as_str(), outcome.thinking.as_str()),
        ("One moment.", "Hmm.")
    );
    assert_eq!(outcome.calls[0].id, "a1");
    assert_eq!(outcome.calls[1].input, json!({}));
    let done = outcome.done.unwrap();
    assert_eq!(done.finish_reason, "tool_use");
    let state = done.state.unwrap();
    assert_eq!(
        (state.owner.as_str(), state.model.as_str()),
        ("gemini/1", "gemini-3-pro-preview")
    );
    let items: Value = serde_json::from_str(state.items.get()).unwrap();
    assert_eq!(
        items,
        json!([
            {"text": "One moment."},
            {"functionCall": {"id": "a1", "name": "search", "args": {"q": "x"}}, "thoughtSignature": "czE="},
            {"functionCall": {"id": "a2", "name": "now"}},
            {"text": "", "thoughtSignature": "czI="},
        ])
    );
    let quiet = RequestInfo {
        show_thinking: false,
        ..info()
    };
    assert_eq!(run(quiet, &chunks).thinking, "");
}

#[test]
fn gives_unique_ids_to_calls_without_one() {
    let call = json!([{"functionCall": {"name": "now", "args": null}}]);
    let outcome = run(info(), &[parts(call.clone()), parts(call), stop("STOP")]);
    let ids: Vec<&str> = outcome.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_3_0", "call_3_1"]);
    assert!(outcome.done.unwrap().state.is_none());
}

#[test]
fn hidden_function_arguments_become_the_text() {
    let call = json!([{"text": "Here:"}, {"functionCall": {"name": "set_model_response", "args": {"a": 1}}}]);
    let outcome = run(with_hidden_tool(), &[parts(call.clone()), stop("STOP")]);
    assert_eq!(outcome.text, r#"{"a":1}"#);
    assert!(outcome.calls.is_empty());
    let done = outcome.done.unwrap();
    assert_eq!(
        (done.finish_reason.as_str(), done.structured),
        ("end_turn", structured::BY_HIDDEN_TOOL)
    );

    let beside = json!([{"functionCall": {"name": "search", "args": {}}}]);
    let outcome = run(
        with_hidden_tool(),
        &[parts(call), parts(beside), stop("STOP")],
    );
    assert_eq!((outcome.text.as_str(), outcome.calls.len()), ("Here:", 1));
    assert_eq!(outcome.done.unwrap().structured, structured::NOT_CALLED);

    let outcome = run(
        with_hidden_tool(),
        &[parts(json!([{"text": "Plain."}])), stop("STOP")],
    );
    assert_eq!(outcome.text, "Plain.");
    assert_eq!(outcome.done.unwrap().structured, structured::NOT_CALLED);
}

#[test]
fn maps_finish_reasons() {
    for (vendor, word) in [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("CONTINUATION", "max_tokens"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call"),
        ("UNEXPECTED_TOOL_CALL", "malformed_function_call"),
        ("LANGUAGE", "language"),
        ("OTHER", "other"),
        ("NEXT_YEARS_REASON", "next_years_reason"),
        ("PROMPT_SAFETY", "content_filter"),
        ("PROMPT_OTHER", "refusal"),
    ] {
        assert_eq!(canonical(vendor, 0), word, "{vendor}");
    }
    assert_eq!(canonical("STOP", 1), "tool_use");
}

#[test]
fn a_blocked_prompt_ends_without_text() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}});
    let outcome = run(info(), &[blocked]);
    assert_eq!(outcome.done.unwrap().finish_reason, "content_filter");
    assert_eq!(outcome.usage.input_tokens, 9);
}

#[test]
fn a_malformed_call_is_a_retryable_error() {
    let error = run(info(), &[stop("MALFORMED_FUNCTION_CALL")])
        .error
        .unwrap();
    assert_eq!(
        error.finish_reason.as_deref(),
        Some("malformed_function_call")
    );
    assert!(error.retryable);
    let error = run(
        info(),
        &[parts(json!([{"functionCall": {"name": "x", "args": [1]}}]))],
    )
    .error
    .unwrap();
    assert_eq!(
        error.finish_reason.as_deref(),
        Some("malformed_function_call")
    );
}

#[test]
fn classifies_errors_inside_the_stream() {
    for (code, status, class) in [
        (429, "RESOURCE_EXHAUSTED", ErrorClass::RateLimit),
        (503, "UNAVAILABLE", ErrorClass::Overloaded),
        (500, "INTERNAL", ErrorClass::Server),
        (400, "INVALID_ARGUMENT", ErrorClass::InvalidRequest),
        (403, "PERMISSION_DENIED", ErrorClass::Auth),
        (504, "DEADLINE_EXCEEDED", ErrorClass::Timeout),
    ] {
        let failure = json!({"error": {"code": code, "message": "Said so.", "status": status}});
        let outcome = run(info(), &[parts(json!([{"text": "Hel"}])), failure]);
        assert_eq!(outcome.text, "Hel");
        let error = outcome.error.unwrap();
        assert_eq!(
            (error.class, error.api_status),
            (class, Some(code)),
            "{status}"
        );
    }
}

#[test]
fn a_stream_without_a_finish_reason_is_an_error() {
    let outcome = run(with_hidden_tool(), &[parts(json!([{"text": "Half an"}]))]);
    assert_eq!(outcome.text, "Half an");
    assert!(outcome.done.is_none());
    assert_eq!(outcome.error.unwrap().class, ErrorClass::Server);
}

proptest! {
    #[test]
    fn no_sequence_of_chunks_panics_or_ends_twice(picks in prop::collection::vec(0_usize..10, 0..30), hidden in any::<bool>()) {
        let kinds = [
            parts(json!([{"text": "a"}])),
            parts(json!([{"text": "b", "thoughtSignature": "s"}])),
            parts(json!([{"text": "c", "thought": true}])),
            parts(json!([{"functionCall": {"name": "x"}}, 7, null, {"functionCall": 3}])),
            parts(json!([{"functionCall": {"name": "set_model_response", "args": {}}}])),
            parts(Value::Null),
            json!({"candidates": null}),
            json!({"candidates": [{}, {}]}),
            stop("STOP"),
            json!({"usageMetadata": {"promptTokenCount": u64::MAX, "candidatesTokenCount": u64::MAX, "thoughtsTokenCount": u64::MAX}}),
        ];
        let chunks: Vec<Value> = picks.iter().map(|pick| kinds[*pick].clone()).collect();
        let outcome = run(if hidden { with_hidden_tool() } else { info() }, &chunks);
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
