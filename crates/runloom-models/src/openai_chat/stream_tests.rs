//! Streams of chat completions, with the deviations of known servers, by table.

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
    let decoder = Decoder::new(RequestInfo {
        show_thinking: true,
        turn: 2,
        structured: StructuredOutput::default(),
    });
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
fn maps_finish_reasons() {
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
fn accepts_whole_calls_with_reason_stop() {
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
fn makes_missing_ids_from_the_turn() {
    let call = json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
    let heard = hear(&[delta(call), finish("tool_calls"), done()]);
    assert_eq!(heard.calls[0].0, "call_2_1");
}

#[test]
fn accepts_a_missing_final_frame_after_a_finish_reason() {
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
fn classifies_errors_inside_the_stream() {
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
fn parses_every_form_of_usage() {
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
fn accepts_content_lists_and_both_thinking_fields() {
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
fn drops_all_calls_if_one_is_malformed() {
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
fn ignores_other_choices_and_unknown_fields() {
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
