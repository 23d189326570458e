//! What a delta costs in memory, and how much memory any answer can take. Allocations are counted, not timed: the figures are
//! the same on every machine.

use allocation_counter::{AllocationInfo, measure};
use runloom_models::probe::{Asked, Probe, Wire};
use serde_json::{Value, json};

use crate::streams::{self, Answer, PROVIDERS, frame};

const ASKED: Asked = Asked {
    thinking: true,
    hidden_tool: false,
};

/// What so many deltas take; the events are dropped as they come, as the driver does.
fn deltas(wire: Wire, answer: &Answer, count: usize) -> AllocationInfo {
    let mut probe = Probe::new(wire, ASKED);
    let mut out = Vec::with_capacity(8);
    probe.chunk(&answer.before, &mut out).unwrap();
    out.clear();
    measure(|| {
        for _ in 0..count {
            probe.chunk(&answer.delta, &mut out).unwrap();
            out.clear();
        }
    })
}

#[test]
fn the_thousandth_delta_costs_what_the_first_did() {
    // Allocations of one delta, counted when this was written; a change for the worse wants a reason.
    let most = |wire| match wire {
        Wire::OpenAiResponses => 1.0,
        Wire::OpenAiChat => 3.0,
        Wire::Gemini => 7.0,
        Wire::Bedrock => 12.0,
        _ => 5.0,
    };
    for wire in PROVIDERS {
        for answer in [Some(streams::text(wire)), streams::arguments(wire)] {
            let Some(answer) = answer else { continue };
            let [few, many] = [500, 10_000].map(|count| {
                let info = deltas(wire, &answer, count);
                let each = |sum: u64| sum as f64 / count as f64;
                (each(info.count_total), each(info.bytes_total))
            });
            // Buffers that double add less and less.
            assert!(many.0 <= few.0, "{wire:?}: {few:?}, then {many:?}");
            assert!(many.1 <= few.1 * 1.05, "{wire:?}: {few:?}, then {many:?}");
            assert!(many.0 <= most(wire) + 0.05, "{wire:?}: {many:?}");
        }
    }
}

/// Whatever comes is kept in a small multiple of its size, and no more than so many bytes of it are read.
#[test]
fn no_answer_takes_more_than_a_multiple_of_its_size() {
    const AT_MOST: u64 = 100;
    for wire in PROVIDERS {
        for (name, event) in hostile(wire) {
            let one = frame(wire, &event);
            let mut came = 0;
            let info = measure(|| {
                let mut probe = Probe::new(wire, ASKED);
                let mut out = Vec::new();
                while came < 1 << 20 {
                    came += one.len();
                    if probe.chunk(&one, &mut out).is_err() {
                        return;
                    }
                    out.clear();
                }
                // How it ends does not matter here.
                let _ = probe.end(&mut out);
            });
            assert!(
                info.bytes_max < AT_MOST * came as u64,
                "{wire:?}, {name}: {came} bytes took {}",
                info.bytes_max
            );
        }
    }
}

/// Events that are small on the wire and large in memory.
fn hostile(wire: Wire) -> Vec<(&'static str, Value)> {
    let many = |event: Value| Value::Array(vec![event; 20_000]);
    let maps = many(json!({"a": {}}));
    match wire {
        Wire::Gemini => vec![
            (
                "parts",
                json!({"candidates": [{"content": {"parts": many(json!({"a": 0}))}}]}),
            ),
            (
                "one part",
                json!({"candidates": [{"content": {"parts": [{"a": 0}]}}]}),
            ),
            (
                "args",
                json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"x": maps}}}]}}]}),
            ),
            ("error", json!({"error": maps})),
        ],
        Wire::Anthropic | Wire::Bedrock => vec![
            (
                "blocks",
                json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {"a": many(json!({"a": {}}))}}}),
            ),
            ("error", json!({"type": "error", "error": maps})),
        ],
        Wire::OpenAiChat => vec![
            ("choices", json!({"choices": many(json!({"delta": {}}))})),
            (
                "calls",
                json!({"choices": [{"delta": {"tool_calls": many(json!({"function": {"name": "f"}}))}}]}),
            ),
            (
                "arguments",
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": maps}}]}}]}),
            ),
        ],
        _ => vec![
            (
                "items",
                json!({"type": "response.output_item.done", "item": {"type": "message", "content": many(json!({"a": {}}))}}),
            ),
            (
                "arguments",
                json!({"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "c", "name": "f", "arguments": json!({"a": maps}).to_string()}}),
            ),
        ],
    }
}
