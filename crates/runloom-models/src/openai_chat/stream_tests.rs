//! Chat-completion streams and their servers' quirks, by table.

use serde_json::{Value, json};

use super::*;
use crate::decode::Decoding;
use crate::sse::Sse;

#[derive(Debug, Default)]
struct Heard {
    text: String,
    thinking: String,
    calls: Vec<(String, String, Value)>,
    usage: Vec<Tokens>,
    finish: Option<String>,
    error: Option<ModelError>,
}

fn hear(frames: &[Value]) -> Heard {
    let text: String = frames
        .iter()
        .map(|frame| match frame {
            Value::String(raw) => format!("data: {raw}\n\n"),
            other => format!("data: {other}\n\n"),
        })
        .collect();
    let decoder = Decoder::new(true, 2, StructuredOutput::default());
    let mut decoding = Decoding::new(Box::<Sse>::default(), Box::new(decoder));
    let mut out = Vec::new();
    let mut outcome = decoding.chunk(text.as_bytes(), &mut out);
    if outcome.is_ok() && !decoding.is_done() {
        outcome = decoding.end(&mut out);
    }
    let mut heard = Heard {
        error: outcome.err(),
        ..Heard::default()
    };
    for event in out {
        match event {
            ModelEvent::Text(piece) => heard.text += &piece,
            ModelEvent::Thinking(piece) => heard.thinking += &piece,
            ModelEvent::Call(call) => heard.calls.push((call.id, call.name, call.input)),
            ModelEvent::Usage(tokens) => heard.usage.push(tokens),
            ModelEvent::Done(done) => heard.finish = Some(done.finish_reason),
        }
    }
    heard
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn done() -> Value {
    json!("[DONE]")
}

#[test]
fn finish_reasons_become_canonical() {
    let table = [
        ("stop", "end_turn"),
        ("tool_calls", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("SomethingNew", "somethingnew"),
    ];
    for (word, wanted) in table {
        let heard = hear(&[delta(json!({"content": "x"})), finish(word), done()]);
        assert_eq!(heard.finish.as_deref(), Some(wanted), "{word}");
    }
}

#[test]
fn ollama_sends_whole_calls_without_pieces_and_says_stop() {
    let heard = hear(&[
        delta(json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "index": 0, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "b", "index": 0, "type": "function", "function": {"name": "g", "arguments": {"y": 2}}},
        ]})),
        finish("stop"),
        done(),
    ]);
    let wanted = [
        ("a".to_owned(), "f".to_owned(), json!({"x": 1})),
        ("b".to_owned(), "g".to_owned(), json!({"y": 2})),
    ];
    assert_eq!(heard.calls, wanted);
    assert_eq!(heard.finish.as_deref(), Some("tool_use"));
}

#[test]
fn ids_that_are_missing_are_made_from_the_turn() {
    let call = json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
    let heard = hear(&[delta(call), finish("tool_calls"), done()]);
    assert_eq!(heard.calls[0].0, "call_2_1");
}

#[test]
fn a_missing_last_frame_is_forgiven_after_a_finish_reason_only() {
    let heard = hear(&[delta(json!({"content": "x"})), finish("stop")]);
    assert_eq!(heard.finish.as_deref(), Some("end_turn"));
    let heard = hear(&[delta(json!({"content": "x"}))]);
    assert_eq!(heard.error.unwrap().class, ErrorClass::Server);
    let heard = hear(&[done()]);
    assert!(
        heard.error.is_some(),
        "an answer without any choice is none"
    );
}

#[test]
fn failures_come_in_many_shapes() {
    let table = [
        (json!({"error": "model crashed"}), ErrorClass::Server),
        (
            json!({"error": {"code": 429, "message": "slow"}}),
            ErrorClass::RateLimit,
        ),
        (
            json!({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}),
            ErrorClass::InvalidRequest,
        ),
        (finish("error"), ErrorClass::Server),
        (json!("not json"), ErrorClass::Server),
        (json!({"choices": 7}), ErrorClass::Server),
    ];
    for (frame, class) in table {
        let heard = hear(&[delta(json!({"content": "x"})), frame.clone(), done()]);
        assert_eq!(heard.error.map(|error| error.class), Some(class), "{frame}");
        assert!(heard.finish.is_none());
    }
    let heard = hear(&[
        json!({"error": null, "choices": []}),
        finish("stop"),
        done(),
    ]);
    assert!(heard.error.is_none(), "a null error is none");
}

#[test]
fn usage_is_read_wherever_and_however_it_is_counted() {
    let counts = |tokens: [u64; 4]| Tokens {
        input_tokens: tokens[0],
        cached_tokens: tokens[1],
        reasoning_tokens: tokens[2],
        output_tokens: tokens[3],
    };
    let table = [
        (
            json!({"usage": {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17, "completion_tokens_details": {"reasoning_tokens": 3}}}),
            counts([10, 0, 3, 7]),
        ),
        // xAI counts reasoning beside the completion.
        (
            json!({"usage": {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 3}}}),
            counts([10, 0, 3, 10]),
        ),
        (
            json!({"usage": {"prompt_tokens": 10, "completion_tokens": 7, "prompt_cache_hit_tokens": 4}}),
            counts([10, 4, 0, 7]),
        ),
        (
            json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}}),
            counts([1, 0, 0, 2]),
        ),
    ];
    for (frame, wanted) in table {
        let heard = hear(&[finish("stop"), frame.clone(), frame, done()]);
        assert_eq!(heard.usage, [wanted], "once, although it came twice");
    }
}

#[test]
fn content_may_be_a_list_and_thinking_may_have_two_names() {
    let heard = hear(&[
        delta(json!({"content": [{"type": "text", "text": "a"}, {"type": "new", "x": 1}]})),
        delta(json!({"content": null, "reasoning": "r1 "})),
        delta(json!({"reasoning_content": "r2", "reasoning": "r2"})),
        delta(json!({"content": "b", "reasoning": {"odd": true}})),
        finish("stop"),
        done(),
    ]);
    assert_eq!(
        (heard.text.as_str(), heard.thinking.as_str()),
        ("ab", "r1 r2")
    );
}

#[test]
fn a_call_that_the_budget_cut_is_dropped_and_a_malformed_one_takes_the_others_with_it() {
    let half = json!({"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "b", "function": {"name": "f", "arguments": "{\"x\":"}},
    ]});
    let heard = hear(&[delta(half.clone()), finish("length"), done()]);
    assert_eq!(heard.calls.len(), 1);
    assert_eq!(heard.finish.as_deref(), Some("max_tokens"));
    let heard = hear(&[delta(half), finish("tool_calls"), done()]);
    assert!(heard.calls.is_empty() && heard.error.is_none());
    assert_eq!(heard.finish.as_deref(), Some("malformed_function_call"));
}

#[test]
fn other_choices_and_unknown_fields_are_ignored() {
    let heard = hear(&[
        json!({"choices": [{"index": 1, "delta": {"content": "no"}}], "new": [1]}),
        delta(json!({"content": "yes", "audio": {}})),
        finish("stop"),
        done(),
        json!("after the end"),
    ]);
    assert_eq!(heard.text, "yes");
    assert!(heard.error.is_none());
}
