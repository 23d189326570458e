//! What the scripted provider says: the name of the model is the script.
//!
//! `bench-t50-d200-f100-call`: 50 tokens, 200 ms before each, 100 ms before the first byte, and a call of the tool
//! `lookup` first, unless the conversation already holds its result. `bulk` hands the whole answer over in one write; with `own` the
//! first token (of the Responses API) tells how long the provider itself took to it.

use std::time::Duration;

use serde_json::{Value, json};

/// The tool that a `call` script asks for.
pub(crate) const TOOL: &str = "lookup";

/// What the answer is made of, over and over.
const WORDS: [&str; 8] = [
    "every ", "event ", "is ", "kept ", "before ", "anyone ", "sees ", "it ",
];

/// No script is longer; a larger number is a slip of the caller.
const TOKENS_AT_MOST: usize = 1_000_000;

/// One script, read from the name of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) tokens: usize,
    /// Before each token.
    pub(crate) gap: Duration,
    /// Before the first byte of the answer.
    pub(crate) first: Duration,
    /// Asks for the tool before it answers.
    pub(crate) calls: bool,
    /// The whole answer in one write.
    pub(crate) bulk: bool,
    /// The first token is [`own_token`].
    pub(crate) own: bool,
}

/// Which API the answer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    Responses,
    Chat,
}

/// An answer, cut where the provider makes pauses.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) opening: Vec<u8>,
    pub(crate) tokens: Vec<Vec<u8>>,
    pub(crate) closing: Vec<u8>,
}

impl Script {
    /// Reads the name of a model; `None` when it is no script.
    pub(crate) fn parse(model: &str) -> Option<Self> {
        let mut script = Self::default();
        for part in model.strip_prefix("bench-")?.split('-') {
            match part {
                "call" => script.calls = true,
                "bulk" => script.bulk = true,
                "own" => script.own = true,
                _ => {
                    let (kind, number) = part.split_at_checked(1)?;
                    let number: u64 = number.parse().ok()?;
                    match kind {
                        "t" => script.tokens = usize::try_from(number).ok()?,
                        "d" => script.gap = Duration::from_millis(number),
                        "f" => script.first = Duration::from_millis(number),
                        _ => return None,
                    }
                }
            }
        }
        (script.tokens <= TOKENS_AT_MOST).then_some(script)
    }

    /// The answer; `answered` when the conversation holds the tool's result.
    pub(crate) fn answer(&self, api: Api, model: &str, answered: bool) -> Answer {
        let calls = self.calls && !answered;
        match api {
            Api::Responses if calls => responses_call(model),
            Api::Responses => responses_text(model, self.tokens),
            Api::Chat if calls => chat_call(model),
            Api::Chat => chat_text(model, self.tokens),
        }
    }
}

fn word(index: usize) -> &'static str {
    WORDS[index % WORDS.len()]
}

fn named(out: &mut Vec<u8>, kind: &str, data: &Value) {
    out.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

fn unnamed(out: &mut Vec<u8>, data: &Value) {
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}

fn response(model: &str, status: &str, output: &Value, tokens: usize) -> Value {
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

fn begin(out: &mut Vec<u8>, model: &str, item: &Value) {
    for kind in ["response.created", "response.in_progress"] {
        let response = response(model, "in_progress", &json!([]), 0);
        named(out, kind, &json!({"type": kind, "response": response}));
    }
    let kind = "response.output_item.added";
    named(
        out,
        kind,
        &json!({"type": kind, "output_index": 0, "item": item}),
    );
}

fn end(out: &mut Vec<u8>, model: &str, item: &Value, tokens: usize) {
    let kind = "response.output_item.done";
    named(
        out,
        kind,
        &json!({"type": kind, "output_index": 0, "item": item}),
    );
    let kind = "response.completed";
    let response = response(model, "completed", &json!([item]), tokens);
    named(out, kind, &json!({"type": kind, "response": response}));
}

fn responses_text(model: &str, tokens: usize) -> Answer {
    let item = |status: &str, text: &str| {
        json!({"id": "msg_bench", "type": "message", "role": "assistant", "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let mut opening = Vec::new();
    begin(&mut opening, model, &item("in_progress", ""));
    let deltas = (0..tokens).map(|index| responses_delta(index, word(index)));
    let deltas = deltas.collect();
    let text: String = (0..tokens).map(word).collect();
    let mut closing = Vec::new();
    let kind = "response.output_text.done";
    named(
        &mut closing,
        kind,
        &json!({"type": kind, "item_id": "msg_bench", "output_index": 0, "content_index": 0, "text": text}),
    );
    end(&mut closing, model, &item("completed", &text), tokens);
    Answer {
        opening,
        tokens: deltas,
        closing,
    }
}

fn responses_delta(index: usize, text: &str) -> Vec<u8> {
    let kind = "response.output_text.delta";
    let mut frame = Vec::new();
    named(
        &mut frame,
        kind,
        &json!({"type": kind, "sequence_number": index + 4, "item_id": "msg_bench", "output_index": 0,
            "content_index": 0, "delta": text, "logprobs": []}),
    );
    frame
}

/// What stands before the nanoseconds in [`own_token`].
const OWN: &str = "own-";

/// A first token that tells how long the provider took to it.
pub(crate) fn own_token(took: Duration) -> Vec<u8> {
    responses_delta(0, &format!("{OWN}{} ", took.as_nanos()))
}

/// How long the provider took to the token in this frame, when it tells.
pub(crate) fn own_time(data: &[u8]) -> Option<Duration> {
    let start = memchr::memmem::find(data, OWN.as_bytes())? + OWN.len();
    let digits = data[start..].split(|byte| !byte.is_ascii_digit()).next()?;
    let nanoseconds = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn responses_call(model: &str) -> Answer {
    let item = |status: &str, arguments: &str| {
        json!({"id": "fc_bench", "type": "function_call", "status": status, "call_id": "call_bench", "name": TOOL,
            "arguments": arguments})
    };
    let mut opening = Vec::new();
    begin(&mut opening, model, &item("in_progress", ""));
    let mut closing = Vec::new();
    let kind = "response.function_call_arguments.done";
    named(
        &mut closing,
        kind,
        &json!({"type": kind, "item_id": "fc_bench", "output_index": 0, "arguments": "{}"}),
    );
    end(&mut closing, model, &item("completed", "{}"), 5);
    Answer {
        opening,
        tokens: Vec::new(),
        closing,
    }
}

fn chunk(model: &str, delta: &Value, finish: &Value) -> Value {
    json!({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn chat_end(model: &str, finish: &str, tokens: usize) -> Vec<u8> {
    let mut closing = Vec::new();
    unnamed(&mut closing, &chunk(model, &json!({}), &json!(finish)));
    unnamed(
        &mut closing,
        &json!({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
            "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}}),
    );
    closing.extend_from_slice(b"data: [DONE]\n\n");
    closing
}

fn chat_text(model: &str, tokens: usize) -> Answer {
    let mut opening = Vec::new();
    let role = json!({"role": "assistant", "content": ""});
    unnamed(&mut opening, &chunk(model, &role, &Value::Null));
    let deltas = (0..tokens).map(|index| {
        let mut frame = Vec::new();
        let delta = json!({"content": word(index)});
        unnamed(&mut frame, &chunk(model, &delta, &Value::Null));
        frame
    });
    Answer {
        opening,
        tokens: deltas.collect(),
        closing: chat_end(model, "stop", tokens),
    }
}

fn chat_call(model: &str) -> Answer {
    let mut opening = Vec::new();
    let delta = json!({"role": "assistant", "tool_calls": [
        {"index": 0, "id": "call_bench", "type": "function", "function": {"name": TOOL, "arguments": "{}"}}]});
    unnamed(&mut opening, &chunk(model, &delta, &Value::Null));
    Answer {
        opening,
        tokens: Vec::new(),
        closing: chat_end(model, "tool_calls", 5),
    }
}

#[cfg(test)]
mod tests {
    use super::{Api, Script, own_time, own_token};
    use std::time::Duration;

    #[test]
    fn a_provider_tells_how_long_it_took_itself() {
        let took = Duration::from_nanos(20_123_456_789);
        assert_eq!(own_time(&own_token(took)), Some(took));
        assert_eq!(own_time(br#"{"text":"every "}"#), None);
        assert!(Script::parse("bench-t5-own").unwrap().own);
    }

    #[test]
    fn a_models_name_is_read_as_a_script() {
        let script = Script::parse("bench-t50-d200-f100-call").unwrap();
        assert_eq!(script.tokens, 50);
        assert_eq!(script.gap, Duration::from_millis(200));
        assert_eq!(script.first, Duration::from_millis(100));
        assert!(script.calls && !script.bulk);
        for name in ["gpt", "bench-x5", "bench-t", "bench-t99999999"] {
            assert_eq!(Script::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_calling_script_answers_in_text_once_it_has_the_result() {
        let script = Script::parse("bench-t3-call").unwrap();
        for api in [Api::Responses, Api::Chat] {
            assert_eq!(script.answer(api, "m", false).tokens.len(), 0);
            assert_eq!(script.answer(api, "m", true).tokens.len(), 3);
        }
    }
}
