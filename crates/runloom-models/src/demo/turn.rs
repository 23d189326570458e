//! What one call of the demo model says: a pure function of the request.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest};
use runloom_protocol::outcome::{
    EnforcementMechanism, ErrorClass, StructuredOutput, finish_reason,
};
use serde_json::{Value, json};

use super::script::{self, Batch, Ending, Fail, Failure, Repeat, Script};
use super::{files, instance};
use crate::error;

/// How much of the prompt is quoted in an answer, in characters.
const MAX_QUOTE: usize = 1_000;

/// One call.
pub(super) enum Turn {
    /// Refused as a provider would.
    Fail(ModelError),
    /// Accepted, and never a word.
    Hang,
    /// Answered.
    Speak(Box<Speech>),
}

/// What is said in one answer.
#[derive(Debug)]
pub(super) struct Speech {
    pub(super) thinking: String,
    pub(super) answer: Answer,
    pub(super) calls: Vec<CallRequest>,
    pub(super) finish: &'static str,
    /// Breaks off after so many deltas.
    pub(super) reset_after: Option<u32>,
    /// Before each delta.
    pub(super) delay: Option<Duration>,
    pub(super) structured: StructuredOutput,
    /// Characters that were sent in.
    pub(super) input_chars: u64,
    pub(super) max_output_tokens: Option<u64>,
}

/// The text of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(String),
    /// So many words, made while they are sent.
    Words(u64),
}

/// Decides a turn. `fails` counts one attempt of the prompt (its place and text) and tells whether a failure applies to it, which
/// may be limited to so many.
pub(super) fn plan(
    request: &ModelRequest,
    fails: impl FnOnce(Option<u32>, (usize, &str)) -> bool,
) -> Turn {
    let messages: Vec<&Message> = request.messages.iter().collect();
    let (at, prompt, script) = find_prompt(&messages);
    let mut reset_after = None;
    if let Some(Fail { how, attempts }) = script.fail
        && fails(attempts, (at, prompt))
    {
        match how {
            Failure::Reset => reset_after = Some(2),
            how => return Turn::Fail(failure(how)),
        }
    }
    let since = messages.get(at + 1..).unwrap_or_default();
    let batch = next_batch(&script, since).filter(|_| request.tools_enabled);
    if batch.is_none() && reset_after.is_none() && script.ending == Some(Ending::Hang) {
        return Turn::Hang;
    }
    let (answer, calls, finish) = match batch {
        Some(batch) => {
            let text = batch.text.clone().unwrap_or_default();
            let calls = requests(batch, &messages);
            (Answer::Text(text), calls, finish_reason::TOOL_USE)
        }
        None => {
            let (answer, finish) = last_words(request, &script, (at, &messages));
            (answer, Vec::new(), finish)
        }
    };
    let answer = match answer {
        // A connection can only break in the middle of something.
        Answer::Text(text) if reset_after.is_some() && text.split_whitespace().count() < 2 => {
            Answer::Text("This answer breaks off in the middle.".to_owned())
        }
        answer => answer,
    };
    Turn::Speak(Box::new(Speech {
        thinking: thinking(request, &script, &calls),
        answer,
        calls,
        finish,
        reset_after,
        delay: script.slow,
        structured: structured(request),
        input_chars: input_chars(request),
        max_output_tokens: request.max_output_tokens,
    }))
}

/// The prompt that this turn belongs to, its place and its directives.
///
/// It is the last user message, except that a message without directives right after tool results is the server's own
/// nudge: the script goes on as if it had not been said, as a stubborn model would.
fn find_prompt<'a>(messages: &[&'a Message]) -> (usize, &'a str, Script) {
    let mut nudge = None;
    for (at, message) in messages.iter().enumerate().rev() {
        let (Message::User { text } | Message::UserFiles { text, .. }) = message else {
            continue;
        };
        let script = script::read(text);
        let before = messages[..at]
            .iter()
            .rev()
            .find(|message| !matches!(message, Message::System { .. }));
        if script.directed || !matches!(before, Some(Message::Tool { .. })) {
            return (at, text, script);
        }
        nudge.get_or_insert((at, &**text, script));
    }
    nudge.unwrap_or((0, "", Script::default()))
}

fn next_batch<'a>(script: &'a Script, since: &[&Message]) -> Option<&'a Batch> {
    if !script.problems.is_empty() {
        return None;
    }
    let made = since
        .iter()
        .filter(|message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty()))
        .count();
    if let Some(batch) = script.batches.get(made) {
        return Some(batch);
    }
    let last = script.batches.last()?;
    let made_of_last = (made + 1 - script.batches.len()) as u64;
    match script.repeat {
        Repeat::Once => None,
        Repeat::Times(times) => (made_of_last < times).then_some(last),
        Repeat::Endless => Some(last),
    }
}

fn requests(batch: &Batch, messages: &[&Message]) -> Vec<CallRequest> {
    let turn = 1 + messages
        .iter()
        .filter(|message| matches!(message, Message::Assistant { .. }))
        .count();
    let numbered = batch.calls.iter().enumerate();
    numbered
        .map(|(index, (name, input))| CallRequest {
            id: format!("demo_{turn}_{}", index + 1),
            name: name.clone(),
            input: input.clone(),
        })
        .collect()
}

/// The final answer and how it ends.
fn last_words(
    request: &ModelRequest,
    script: &Script,
    (at, messages): (usize, &[&Message]),
) -> (Answer, &'static str) {
    let answer = final_answer(request, script, (at, messages));
    match script.ending {
        None | Some(Ending::Hang) => (answer, finish_reason::END_TURN),
        Some(Ending::Truncate) => (half(answer), finish_reason::MAX_TOKENS),
        Some(Ending::Refuse) => {
            let text = script.say.as_deref().unwrap_or("I cannot help with that.");
            (Answer::Text(text.to_owned()), finish_reason::REFUSAL)
        }
        Some(Ending::Malformed) => (
            Answer::Text(String::new()),
            finish_reason::MALFORMED_FUNCTION_CALL,
        ),
    }
}

fn final_answer(
    request: &ModelRequest,
    script: &Script,
    (at, messages): (usize, &[&Message]),
) -> Answer {
    let (earlier, later) = messages.split_at(at.min(messages.len()));
    if let Some(schema) = &request.output_schema {
        let said = script.say.as_deref();
        let said = said.filter(|text| serde_json::from_str::<Value>(text).is_ok());
        return Answer::Text(match said {
            Some(text) => text.to_owned(),
            None => instance::of(&Value::Object(schema.schema.clone())).to_string(),
        });
    }
    if let Some(text) = &script.say {
        return Answer::Text(text.clone());
    }
    if let Some(count) = script.tokens {
        return Answer::Words(count);
    }
    if script.history {
        return Answer::Text(history(earlier));
    }
    if script.files {
        return Answer::Text(files::list(messages));
    }
    let brought = later
        .iter()
        .skip(1)
        .flat_map(|message| files::lines(message));
    let mut lines: Vec<String> = later
        .iter()
        .filter_map(|message| result_line(message))
        .chain(brought)
        .collect();
    lines.extend(script.problems.iter().cloned());
    if lines.is_empty() {
        return Answer::Text(small_talk(request, script, later.first()));
    }
    Answer::Text(lines.join("\n"))
}

fn half(answer: Answer) -> Answer {
    match answer {
        Answer::Words(count) => Answer::Words(count.div_ceil(2)),
        Answer::Text(text) => {
            let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
            if words.len() < 2 {
                let middle = text.chars().count().div_ceil(2);
                return Answer::Text(text.chars().take(middle).collect());
            }
            Answer::Text(words[..words.len().div_ceil(2)].concat())
        }
    }
}

fn history(earlier: &[&Message]) -> String {
    let said = earlier.iter().filter_map(|message| match message {
        Message::User { text } | Message::UserFiles { text, .. } => {
            Some(json!({"role": "user", "content": text}))
        }
        Message::Assistant { text, .. } if !text.is_empty() => {
            Some(json!({"role": "assistant", "content": text}))
        }
        Message::Tool { name, content, .. } => {
            Some(json!({"role": "tool", "name": name, "content": content}))
        }
        _ => None,
    });
    Value::Array(said.collect()).to_string()
}

fn result_line(message: &Message) -> Option<String> {
    match message {
        Message::Tool {
            name,
            content,
            is_error,
            ..
        } => {
            let verb = if *is_error { "failed" } else { "returned" };
            Some(format!("{name} {verb}: {content}"))
        }
        _ => None,
    }
}

fn small_talk(request: &ModelRequest, script: &Script, prompt: Option<&&Message>) -> String {
    let said = if script.plain.is_empty() {
        match prompt {
            Some(Message::User { text } | Message::UserFiles { text, .. }) => text.trim(),
            _ => "",
        }
    } else {
        &script.plain
    };
    let mut quote: String = said.chars().take(MAX_QUOTE).collect();
    if quote.len() < said.len() {
        quote.push('…');
    }
    let names: Vec<&str> = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let hint = match names.first() {
        None => "Give me tools and a line such as: call NAME {\"key\":\"value\"}".to_owned(),
        Some(first) => format!(
            "I can call {}: write a line such as: call {first} {{}}",
            names.join(", ")
        ),
    };
    let files = prompt.map_or_else(Vec::new, |message| files::lines(message));
    let given = match files.as_slice() {
        [] => String::new(),
        lines => format!(" You gave me {}.", lines.join(", ")),
    };
    format!(
        "You said: \"{quote}\".{given} I am the offline demo model, glad to help you try things out. {hint}"
    )
}

fn thinking(request: &ModelRequest, script: &Script, calls: &[CallRequest]) -> String {
    if request.reasoning_level.unwrap_or(0) == 0 {
        return String::new();
    }
    if let Some(thought) = &script.think {
        return thought.clone();
    }
    if calls.is_empty() {
        return "I have what I need, so I am about to answer.".to_owned();
    }
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    format!("I am about to call {}.", names.join(", "))
}

fn structured(request: &ModelRequest) -> StructuredOutput {
    if request.output_schema.is_none() {
        return StructuredOutput::default();
    }
    StructuredOutput {
        schema_requested: true,
        schema_enforced: true,
        enforcement_mechanism: EnforcementMechanism::NativeSchema,
        unconstrained_fallback_occurred: false,
    }
}

fn input_chars(request: &ModelRequest) -> u64 {
    let chars = |text: &str| text.chars().count() as u64;
    let of_message = |message: &Message| match message {
        Message::System { text } | Message::User { text } => chars(text),
        Message::UserFiles { .. } => message.bytes() as u64,
        Message::Assistant { text, calls, .. } => {
            chars(text) + calls.iter().map(call_chars).sum::<u64>()
        }
        Message::Tool { content, .. } => chars(content),
    };
    let tools = request.tools.iter().map(|tool| {
        chars(&tool.name) + chars(&tool.description) + chars(&tool.parameters.to_string())
    });
    let schema = request.output_schema.as_ref();
    chars(&request.system)
        + request.messages.iter().map(of_message).sum::<u64>()
        + tools.sum::<u64>()
        + schema.map_or(0, |schema| {
            chars(&Value::Object(schema.schema.clone()).to_string())
        })
}

/// How long a call is, for the usage.
pub(super) fn call_chars(call: &CallRequest) -> u64 {
    (call.name.chars().count() + call.input.to_string().chars().count()) as u64
}

/// The error of a refusal, made by the same classification as an answer over HTTP.
fn failure(how: Failure) -> ModelError {
    let (status, code, message) = match how {
        Failure::Timeout => {
            return ModelError::new(
                ErrorClass::Timeout,
                "the demo model was told not to answer in time",
            );
        }
        Failure::Reset => return error::cut(),
        Failure::Context => (
            400,
            "context_length_exceeded",
            "the demo model was told that the conversation exceeds its context window".to_owned(),
        ),
        Failure::Status(status) => (
            status,
            "demo_failure",
            format!("the demo model was told to fail with {status}"),
        ),
    };
    let body = json!({"error": {"message": message, "code": code}}).to_string();
    let mut headers = HeaderMap::new();
    if status == 429 {
        headers.insert(
            HeaderName::from_static("retry-after-ms"),
            HeaderValue::from_static("20"),
        );
    }
    error::from_response(status, &headers, body.as_bytes())
}
