//! Memory of a delta and of a whole response. Allocations are counted, not timed, so the figures are the same on every
//! machine.

use allocation_counter::{AllocationInfo, measure};
use runloom_models::test_support::{DecoderOptions, TestDecoder};
use serde_json::{Value, json};

use crate::streams::{self, APIS, TestResponse, frame};

const OPTIONS: DecoderOptions = DecoderOptions {
    show_thinking: true,
    hidden_tool: false,
};

/// The allocations of a number of deltas. Events are dropped as they come, as the driver does.
fn deltas(api: &str, response: &TestResponse, count: usize) -> AllocationInfo {
    let mut decoder = TestDecoder::new(api, OPTIONS).unwrap();
    let mut out = Vec::with_capacity(8);
    decoder.chunk(&response.before, &mut out).unwrap();
    out.clear();
    measure(|| {
        for _ in 0..count {
            decoder.chunk(&response.delta, &mut out).unwrap();
            out.clear();
        }
    })
}

#[test]
fn a_later_delta_costs_no_more_than_an_early_one() {
    // Allocations of one delta. A change for the worse needs a reason.
    let most = |api| match api {
        "openai_responses" => 1.0,
        "openai_chat" => 3.0,
        "gemini" => 7.0,
        "bedrock" => 12.0,
        _ => 5.0,
    };
    for api in APIS {
        for response in [Some(streams::text(api)), streams::arguments(api)] {
            let Some(response) = response else { continue };
            let [few, many] = [500, 10_000].map(|count| {
                let info = deltas(api, &response, count);
                let each = |sum: u64| sum as f64 / count as f64;
                (each(info.count_total), each(info.bytes_total))
            });
            // The cost of doubling buffers falls.
            assert!(many.0 <= few.0, "{api}: {few:?}, then {many:?}");
            assert!(many.1 <= few.1 * 1.05, "{api}: {few:?}, then {many:?}");
            assert!(many.0 <= most(api) + 0.05, "{api}: {many:?}");
        }
    }
}

#[test]
fn memory_is_at_most_a_multiple_of_the_response() {
    const AT_MOST: u64 = 100;
    for api in APIS {
        for (name, event) in hostile(api) {
            let one = frame(api, &event);
            let mut came = 0;
            let info = measure(|| {
                let mut decoder = TestDecoder::new(api, OPTIONS).unwrap();
                let mut out = Vec::new();
                while came < 1 << 20 {
                    came += one.len();
                    if decoder.chunk(&one, &mut out).is_err() {
                        return;
                    }
                    out.clear();
                }
                // The outcome does not matter here.
                let _ = decoder.end(&mut out);
            });
            assert!(
                info.bytes_max < AT_MOST * came as u64,
                "{api}, {name}: {came} bytes took {}",
                info.bytes_max
            );
        }
    }
}

/// Events that are small as JSON and large in memory.
fn hostile(api: &str) -> Vec<(&'static str, Value)> {
    let many = |event: Value| Value::Array(vec![event; 20_000]);
    let maps = many(json!({"a": {}}));
    match api {
        "gemini" => vec![
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
        "anthropic" | "bedrock" => vec![
            (
                "blocks",
                json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {"a": many(json!({"a": {}}))}}}),
            ),
            ("error", json!({"type": "error", "error": maps})),
        ],
        "openai_chat" => vec![
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
