//! Answers of any length, in each vendor's format.

use runloom_models::probe::Wire;
use serde_json::{Value, json};

use crate::targets::framed;

/// The wires of providers: the two framings alone decode nothing.
pub const PROVIDERS: [Wire; 5] = [
    Wire::Anthropic,
    Wire::Bedrock,
    Wire::Gemini,
    Wire::OpenAiChat,
    Wire::OpenAiResponses,
];

/// The beginning of an answer, and one of its deltas.
pub struct Answer {
    pub before: Vec<u8>,
    pub delta: Vec<u8>,
}

/// An answer whose deltas are pieces of a tool's arguments, for the wires that send such.
pub fn arguments(wire: Wire) -> Option<Answer> {
    let (before, delta) = match wire {
        Wire::Anthropic | Wire::Bedrock => (
            json!({"type": "content_block_start", "index": 1,
                   "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1,
                   "delta": {"type": "input_json_delta", "partial_json": "     "}}),
        ),
        Wire::OpenAiChat => (
            json!({"choices": [{"index": 0, "delta": {"tool_calls":
                   [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls":
                   [{"index": 0, "function": {"arguments": "     "}}]}}]}),
        ),
        _ => return None,
    };
    let mut answer = text(wire);
    answer.before.extend(frame(wire, &before));
    answer.delta = frame(wire, &delta);
    Some(answer)
}

/// An answer of text.
pub fn text(wire: Wire) -> Answer {
    let before = match wire {
        Wire::Anthropic | Wire::Bedrock => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}),
            json!({"type": "content_block_start", "index": 0,
                   "content_block": {"type": "text", "text": ""}}),
        ],
        Wire::OpenAiChat => {
            vec![json!({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})]
        }
        Wire::OpenAiResponses => {
            vec![json!({"type": "response.created", "response": {"status": "in_progress"}})]
        }
        _ => vec![],
    };
    Answer {
        before: before.iter().flat_map(|event| frame(wire, event)).collect(),
        delta: frame(wire, &delta(wire, "every ")),
    }
}

fn delta(wire: Wire, word: &str) -> Value {
    match wire {
        Wire::Anthropic | Wire::Bedrock => json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": word}}),
        Wire::Gemini => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": word}]}}]})
        }
        Wire::OpenAiChat => json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]}),
        _ => json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "sequence_number": 7, "delta": word}),
    }
}

/// One event as it is on the wire.
pub fn frame(wire: Wire, event: &Value) -> Vec<u8> {
    if wire == Wire::Bedrock {
        framed(event.to_string().as_bytes())
    } else {
        format!("data: {event}\n\n").into_bytes()
    }
}
