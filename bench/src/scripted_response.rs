//! The scripted provider's responses in the formats of OpenAI's Responses API and of chat completions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::script::{Script, TOOL};

/// The text of a response repeats these words.
const WORDS: [&str; 8] = [
    "every ", "event ", "is ", "kept ", "before ", "anyone ", "sees ", "it ",
];

/// The API that a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    Responses,
    Chat,
}

/// What a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    ToolCall,
    Text,
}

/// A response, split where the provider pauses.
#[derive(Debug)]
pub(crate) struct ScriptedResponse {
    pub(crate) opening: Vec<u8>,
    pub(crate) tokens: Vec<Vec<u8>>,
    pub(crate) closing: Vec<u8>,
}

impl ScriptedResponse {
    pub(crate) fn new(api: Api, model: &str, turn: Turn, script: &Script) -> Self {
        match (api, turn) {
            (Api::Responses, Turn::ToolCall) => responses_call(model),
            (Api::Responses, Turn::Text) => responses_text(model, script.tokens),
            (Api::Chat, Turn::ToolCall) => chat_call(model),
            (Api::Chat, Turn::Text) => chat_text(model, script.tokens),
        }
    }
}

/// A first token that contains the time the provider took to send it.
pub(crate) fn timed_token(elapsed: Duration) -> Vec<u8> {
    let text = format!("{}{} ", crate::script::TIME_MARK, elapsed.as_nanos());
    responses_delta(0, &text)
}

fn word(index: usize) -> &'static str {
    WORDS[index % WORDS.len()]
}

fn named_event(out: &mut Vec<u8>, kind: &str, data: &Value) {
    out.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

fn unnamed_event(out: &mut Vec<u8>, data: &Value) {
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}

fn response_object(model: &str, status: &str, output: &Value, tokens: usize) -> Value {
    json!({
        "id": "resp_bench", "object": "response", "created_at": 1_700_000_000, "status": status, "model": model,
        "output": output, "error": null, "incomplete_details": null,
        "usage": {
            "input_tokens": 12, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12 + tokens,
        },
    })
}

fn responses_opening(out: &mut Vec<u8>, model: &str, item: &Value) {
    for kind in ["response.created", "response.in_progress"] {
        let response = response_object(model, "in_progress", &json!([]), 0);
        named_event(out, kind, &json!({"type": kind, "response": response}));
    }
    let kind = "response.output_item.added";
    named_event(
        out,
        kind,
        &json!({"type": kind, "output_index": 0, "item": item}),
    );
}

fn responses_closing(out: &mut Vec<u8>, model: &str, item: &Value, tokens: usize) {
    let kind = "response.output_item.done";
    named_event(
        out,
        kind,
        &json!({"type": kind, "output_index": 0, "item": item}),
    );
    let kind = "response.completed";
    let response = response_object(model, "completed", &json!([item]), tokens);
    named_event(out, kind, &json!({"type": kind, "response": response}));
}

fn responses_text(model: &str, tokens: usize) -> ScriptedResponse {
    let item = |status: &str, text: &str| {
        json!({"id": "msg_bench", "type": "message", "role": "assistant", "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let mut opening = Vec::new();
    responses_opening(&mut opening, model, &item("in_progress", ""));
    let deltas = (0..tokens).map(|index| responses_delta(index, word(index)));
    let deltas = deltas.collect();
    let text: String = (0..tokens).map(word).collect();
    let mut closing = Vec::new();
    let kind = "response.output_text.done";
    named_event(
        &mut closing,
        kind,
        &json!({"type": kind, "item_id": "msg_bench", "output_index": 0, "content_index": 0, "text": text}),
    );
    responses_closing(&mut closing, model, &item("completed", &text), tokens);
    ScriptedResponse {
        opening,
        tokens: deltas,
        closing,
    }
}

fn responses_delta(index: usize, text: &str) -> Vec<u8> {
    let kind = "response.output_text.delta";
    let mut frame = Vec::new();
    named_event(
        &mut frame,
        kind,
        &json!({"type": kind, "sequence_number": index + 4, "item_id": "msg_bench", "output_index": 0,
            "content_index": 0, "delta": text, "logprobs": []}),
    );
    frame
}

fn responses_call(model: &str) -> ScriptedResponse {
    let item = |status: &str, arguments: &str| {
        json!({"id": "fc_bench", "type": "function_call", "status": status, "call_id": "call_bench", "name": TOOL,
            "arguments": arguments})
    };
    let mut opening = Vec::new();
    responses_opening(&mut opening, model, &item("in_progress", ""));
    let mut closing = Vec::new();
    let kind = "response.function_call_arguments.done";
    named_event(
        &mut closing,
        kind,
        &json!({"type": kind, "item_id": "fc_bench", "output_index": 0, "arguments": "{}"}),
    );
    responses_closing(&mut closing, model, &item("completed", "{}"), 5);
    ScriptedResponse {
        opening,
        tokens: Vec::new(),
        closing,
    }
}

fn chat_chunk(model: &str, delta: &Value, finish: &Value) -> Value {
    json!({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn chat_closing(model: &str, finish: &str, tokens: usize) -> Vec<u8> {
    let mut closing = Vec::new();
    unnamed_event(&mut closing, &chat_chunk(model, &json!({}), &json!(finish)));
    unnamed_event(
        &mut closing,
        &json!({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
            "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}}),
    );
    closing.extend_from_slice(b"data: [DONE]\n\n");
    closing
}

fn chat_text(model: &str, tokens: usize) -> ScriptedResponse {
    let mut opening = Vec::new();
    let role = json!({"role": "assistant", "content": ""});
    unnamed_event(&mut opening, &chat_chunk(model, &role, &Value::Null));
    let deltas = (0..tokens).map(|index| {
        let mut frame = Vec::new();
        let delta = json!({"content": word(index)});
        unnamed_event(&mut frame, &chat_chunk(model, &delta, &Value::Null));
        frame
    });
    ScriptedResponse {
        opening,
        tokens: deltas.collect(),
        closing: chat_closing(model, "stop", tokens),
    }
}

fn chat_call(model: &str) -> ScriptedResponse {
    let mut opening = Vec::new();
    let delta = json!({"role": "assistant", "tool_calls": [
        {"index": 0, "id": "call_bench", "type": "function", "function": {"name": TOOL, "arguments": "{}"}}]});
    unnamed_event(&mut opening, &chat_chunk(model, &delta, &Value::Null));
    ScriptedResponse {
        opening,
        tokens: Vec::new(),
        closing: chat_closing(model, "tool_calls", 5),
    }
}
