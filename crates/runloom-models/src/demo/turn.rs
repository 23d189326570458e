//! Plans the response of one call of the demo model: a pure function of the request.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use runloom_ports::model::{CallRequest, Message, ModelError, ModelRequest};
use runloom_protocol::outcome::{
    EnforcementMechanism, ErrorClass, StructuredOutput, finish_reason,
};
use serde_json::{Value, json};

use super::script::{self, Batch, Ending, Fail, Failure, Repeat, Script};
use super::{files, instance, summary};
use crate::error;

/// Longest quotation of the prompt in a response, in characters.
const MAX_QUOTE: usize = 1_000;

/// The outcome of one call.
pub(super) enum Plan {
    /// An error, as a provider would return it.
    Fail(ModelError),
    /// A response without events that never ends.
    Hang,
    Respond(Box<PlannedResponse>),
}

/// The content of one response.
#[derive(Debug)]
pub(super) struct PlannedResponse {
    pub(super) thinking: String,
    pub(super) text: OutputText,
    pub(super) calls: Vec<CallRequest>,
    pub(super) finish: &'static str,
    /// Number of deltas after which the connection breaks.
    pub(super) reset_after: Option<u32>,
    /// Delay before each delta.
    pub(super) delay: Option<Duration>,
    pub(super) structured: StructuredOutput,
    /// Length of the request, in characters.
    pub(super) input_chars: u64,
    pub(super) max_output_tokens: Option<u64>,
}

/// The text of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputText {
    Text(String),
    /// A number of words, which are generated while they are sent.
    Words(u64),
}

/// The prompt that a turn belongs to.
#[derive(Debug)]
pub(super) struct Prompt<'a> {
    /// Position in the conversation.
    pub(super) position: usize,
    pub(super) text: &'a str,
    script: Script,
}

/// The final text of a script and its finish reason.
struct Final {
    text: OutputText,
    finish: &'static str,
}

/// Plans a turn. `fails` counts one attempt of the prompt and returns whether it fails, given the number of attempts
/// that fail (`None` = every one).
pub(super) fn plan(
    request: &ModelRequest,
    fails: impl FnOnce(Option<u32>, &Prompt<'_>) -> bool,
) -> Plan {
    let messages: Vec<&Message> = request.messages.iter().collect();
    let prompt = find_prompt(&messages);
    let script = &prompt.script;
    let mut reset_after = None;
    if let Some(Fail { how, attempts }) = script.fail
        && fails(attempts, &prompt)
    {
        match how {
            Failure::Reset => reset_after = Some(2),
            how => return Plan::Fail(failure(how)),
        }
    }
    if script
        .window
        .is_some_and(|window| input_chars(request).div_ceil(4) > window)
    {
        return Plan::Fail(failure(Failure::Context));
    }
    let since = messages.get(prompt.position + 1..).unwrap_or_default();
    let earlier = messages.get(..prompt.position).unwrap_or_default();
    let covered = summary::tool_turns(earlier, prompt.text);
    let batch = next_batch(script, since, covered).filter(|_| request.tools_enabled);
    if batch.is_none() && reset_after.is_none() && script.ending == Some(Ending::Hang) {
        return Plan::Hang;
    }
    let (last, calls) = match batch {
        Some(batch) => {
            let text = OutputText::Text(batch.text.clone().unwrap_or_default());
            let finish = finish_reason::TOOL_USE;
            (Final { text, finish }, requests(batch, &messages))
        }
        None => (final_turn(request, &prompt, &messages), Vec::new()),
    };
    let text = match last.text {
        // A connection can break only in the middle of a text.
        OutputText::Text(text) if reset_after.is_some() && text.split_whitespace().count() < 2 => {
            OutputText::Text("This answer breaks off in the middle.".to_owned())
        }
        text => text,
    };
    Plan::Respond(Box::new(PlannedResponse {
        thinking: thinking(request, script, &calls),
        text,
        calls,
        finish: last.finish,
        reset_after,
        delay: script.slow,
        structured: structured(request),
        input_chars: input_chars(request),
        max_output_tokens: request.max_output_tokens,
    }))
}

/// The prompt that this turn belongs to: the last user message. A message without directives right after tool results
/// is skipped, because the server adds such messages itself; the script continues as if it were not there.
fn find_prompt<'a>(messages: &[&'a Message]) -> Prompt<'a> {
    let mut added = None;
    for (position, message) in messages.iter().enumerate().rev() {
        let (Message::User { text } | Message::UserFiles { text, .. }) = message else {
            continue;
        };
        let script = script::parse(text);
        let before = messages[..position]
            .iter()
            .rev()
            .find(|message| !matches!(message, Message::System { .. }));
        let has_directives = script.has_directives;
        let prompt = Prompt {
            position,
            text,
            script,
        };
        if has_directives || !matches!(before, Some(Message::Tool { .. })) {
            return prompt;
        }
        added.get_or_insert(prompt);
    }
    added.unwrap_or(Prompt {
        position: 0,
        text: "",
        script: Script::default(),
    })
}

fn next_batch<'a>(script: &'a Script, since: &[&Message], covered: usize) -> Option<&'a Batch> {
    if !script.problems.is_empty() {
        return None;
    }
    let made = since
        .iter()
        .filter(|message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty()))
        .count()
        .saturating_add(covered);
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
        .map(|(index, call)| CallRequest {
            id: format!("demo_{turn}_{}", index + 1),
            name: call.name.clone(),
            input: call.input.clone(),
        })
        .collect()
}

fn final_turn(request: &ModelRequest, prompt: &Prompt<'_>, messages: &[&Message]) -> Final {
    let script = &prompt.script;
    let (text, finish) = match script.ending {
        None | Some(Ending::Hang) => (
            final_text(request, prompt, messages),
            finish_reason::END_TURN,
        ),
        Some(Ending::Truncate) => (
            half(final_text(request, prompt, messages)),
            finish_reason::MAX_TOKENS,
        ),
        Some(Ending::Refuse) => {
            let text = script.say.as_deref().unwrap_or("I cannot help with that.");
            (OutputText::Text(text.to_owned()), finish_reason::REFUSAL)
        }
        Some(Ending::Malformed) => (
            OutputText::Text(String::new()),
            finish_reason::MALFORMED_FUNCTION_CALL,
        ),
    };
    Final { text, finish }
}

fn final_text(request: &ModelRequest, prompt: &Prompt<'_>, messages: &[&Message]) -> OutputText {
    let script = &prompt.script;
    let (earlier, later) = messages.split_at(prompt.position.min(messages.len()));
    if let Some(schema) = &request.output_schema {
        let said = script.say.as_deref();
        let said = said.filter(|text| serde_json::from_str::<Value>(text).is_ok());
        return OutputText::Text(match said {
            Some(text) => text.to_owned(),
            None => instance::of(&Value::Object(schema.schema.clone())).to_string(),
        });
    }
    if let Some(text) = &script.say {
        return OutputText::Text(text.clone());
    }
    if let Some(count) = script.tokens {
        return OutputText::Words(count);
    }
    if let Some(text) = summary::of(request) {
        return OutputText::Text(text);
    }
    if script.history {
        return OutputText::Text(history(earlier));
    }
    if script.files {
        return OutputText::Text(files::list(messages));
    }
    let tool_files = later
        .iter()
        .skip(1)
        .flat_map(|message| files::lines(message));
    let mut lines: Vec<String> = later
        .iter()
        .filter_map(|message| result_line(message))
        .chain(tool_files)
        .collect();
    lines.extend(script.problems.iter().cloned());
    if lines.is_empty() {
        return OutputText::Text(small_talk(request, script, later.first()));
    }
    OutputText::Text(lines.join("\n"))
}

fn half(text: OutputText) -> OutputText {
    match text {
        OutputText::Words(count) => OutputText::Words(count.div_ceil(2)),
        OutputText::Text(text) => {
            let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
            if words.len() < 2 {
                let middle = text.chars().count().div_ceil(2);
                return OutputText::Text(text.chars().take(middle).collect());
            }
            OutputText::Text(words[..words.len().div_ceil(2)].concat())
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

/// Length of a call in characters, for the usage.
pub(super) fn call_chars(call: &CallRequest) -> u64 {
    (call.name.chars().count() + call.input.to_string().chars().count()) as u64
}

/// The error of a failure, classified like an HTTP response.
fn failure(how: Failure) -> ModelError {
    let (status, code, message) = match how {
        Failure::Timeout => {
            return ModelError::new(
                ErrorClass::Timeout,
                "the demo model was told not to answer in time",
            );
        }
        Failure::Reset => return error::incomplete_response(),
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
