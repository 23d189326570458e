//! Responses of any length, in the format of each API.

use serde_json::{Value, json};

use crate::targets::framed;

/// The APIs.
pub const APIS: [&str; 5] = [
    "anthropic",
    "bedrock",
    "gemini",
    "openai_chat",
    "openai_responses",
];

/// The beginning of a response, and one of its deltas.
pub struct TestResponse {
    pub before: Vec<u8>,
    pub delta: Vec<u8>,
}

/// A response whose deltas are pieces of tool arguments; `None` if the API sends arguments whole.
pub fn arguments(api: &str) -> Option<TestResponse> {
    let (before, delta) = match api {
        "anthropic" | "bedrock" => (
            json!({"type": "content_block_start", "index": 1,
                   "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1,
                   "delta": {"type": "input_json_delta", "partial_json": "     "}}),
        ),
        "openai_chat" => (
            json!({"choices": [{"index": 0, "delta": {"tool_calls":
                   [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls":
                   [{"index": 0, "function": {"arguments": "     "}}]}}]}),
        ),
        _ => return None,
    };
    let mut response = text(api);
    response.before.extend(frame(api, &before));
    response.delta = frame(api, &delta);
    Some(response)
}

/// A response of text.
pub fn text(api: &str) -> TestResponse {
    let before = match api {
        "anthropic" | "bedrock" => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}),
            json!({"type": "content_block_start", "index": 0,
                   "content_block": {"type": "text", "text": ""}}),
        ],
        "openai_chat" => {
            vec![json!({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})]
        }
        "openai_responses" => {
            vec![json!({"type": "response.created", "response": {"status": "in_progress"}})]
        }
        _ => vec![],
    };
    TestResponse {
        before: before.iter().flat_map(|event| frame(api, event)).collect(),
        delta: frame(api, &delta(api, "every ")),
    }
}

fn delta(api: &str, word: &str) -> Value {
    match api {
        "anthropic" | "bedrock" => json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": word}}),
        "gemini" => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": word}]}}]})
        }
        "openai_chat" => json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]}),
        _ => json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "sequence_number": 7, "delta": word}),
    }
}

/// One event, framed.
pub fn frame(api: &str, event: &Value) -> Vec<u8> {
    if api == "bedrock" {
        framed(event.to_string().as_bytes())
    } else {
        format!("data: {event}\n\n").into_bytes()
    }
}
