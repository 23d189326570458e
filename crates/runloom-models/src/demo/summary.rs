//! Summaries of the demo model. A summary notes how many tool turns of a prompt it covers, so that the script of the
//! prompt continues behind it.

use std::hash::{DefaultHasher, Hash, Hasher};

use runloom_ports::model::{Message, ModelRequest, SUMMARY_INSTRUCTIONS};
use serde_json::Value;

use super::script;

const NOTE: &str = "demo tool turns:";

/// The summary that the request asks for; `None` if it asks for something else.
pub(super) fn of(request: &ModelRequest) -> Option<String> {
    if *request.system != *SUMMARY_INSTRUCTIONS {
        return None;
    }
    let Some(Message::User { text }) = request.messages.iter().last() else {
        return None;
    };
    let (mut messages, mut made, mut prompt) = (0_u64, 0_u64, 0);
    for line in text.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        messages += 1;
        let said = message["text"].as_str().unwrap_or_default();
        if message["role"] == "user" && script::parse(said).has_directives {
            made = noted(text, hash(said)).unwrap_or(0);
            prompt = hash(said);
        }
        made += u64::from(message["calls"].as_array().is_some_and(|it| !it.is_empty()));
    }
    Some(format!(
        "The demo model summarised {messages} messages. ({NOTE} {made} of {prompt:016x})"
    ))
}

/// The tool turns of a prompt that the summary before it covers.
pub(super) fn tool_turns(earlier: &[&Message], prompt: &str) -> usize {
    let Some(Message::User { text }) = earlier.first() else {
        return 0;
    };
    let made = noted(text, hash(prompt)).unwrap_or(0);
    usize::try_from(made).unwrap_or(usize::MAX)
}

fn noted(text: &str, prompt: u64) -> Option<u64> {
    let end = format!(" of {prompt:016x})");
    let (before, _) = text.split_once(&end)?;
    let (_, count) = before.rsplit_once(NOTE)?;
    count.trim().parse().ok()
}

fn hash(prompt: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    prompt.hash(&mut hasher);
    hasher.finish()
}
