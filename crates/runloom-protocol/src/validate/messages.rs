//! `prompt` or `messages`, as one list of messages.

use serde_json::Value;

use super::attachments;
use crate::limits;
use crate::read::{Array, Excerpt, Fields, Keyword, Node};
use crate::spec::{PromptMessage, Role};

const WHERE_FILES_GO: &str = "files go into `attachments` of the last user message in `messages`";

impl Keyword for Role {
    const ALL: &'static [Self] = &[Self::System, Self::User, Self::Assistant];

    fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

pub(super) fn read(fields: &Fields<'_, '_>) -> Vec<PromptMessage> {
    refuse_files_of_the_body(fields);
    match (fields.get("prompt"), fields.get("messages")) {
        (None, None) => {
            let message = "is required: give either `prompt` or `messages`";
            fields.refuse("prompt", message);
            Vec::new()
        }
        (Some(text), None) => prompt(text),
        (None, Some(messages)) => list(messages),
        (Some(text), Some(messages)) => {
            text.refuse("give either `prompt` or `messages`, not both");
            prompt(text);
            list(messages)
        }
    }
}

/// Ignoring files beside the prompt would make the model answer without having seen them.
fn refuse_files_of_the_body(fields: &Fields<'_, '_>) {
    let files = fields.object().get("attachments").and_then(Value::as_array);
    if files.is_some_and(|files| !files.is_empty()) {
        fields.refuse("attachments", WHERE_FILES_GO);
    }
}

fn prompt(node: Node<'_, '_>) -> Vec<PromptMessage> {
    let Some(text) = node.text(limits::MESSAGE_MAX_CHARS) else {
        return Vec::new();
    };
    if text.trim().is_empty() {
        node.refuse("must not be empty");
    }
    vec![PromptMessage::new(Role::User, text)]
}

fn list(node: Node<'_, '_>) -> Vec<PromptMessage> {
    let Some(array) = node.array(limits::MESSAGES_MAX) else {
        return Vec::new();
    };
    if array.is_empty() {
        array.refuse("must have at least one message");
        return Vec::new();
    }
    let read: Vec<_> = array.iter().map(message).collect();
    check_last(&read, &array);
    read.into_iter().flatten().collect()
}

/// The model answers the last message that is not an instruction, so it must be the user's. A message that could not be
/// read has its own error and is not checked here.
fn check_last(read: &[Option<PromptMessage>], array: &Array<'_, '_>) {
    let is_system = |m: &Option<PromptMessage>| m.as_ref().is_some_and(|m| m.role == Role::System);
    let last = read.iter().enumerate().rfind(|(_, m)| !is_system(m));
    match last {
        None => array.refuse("must have a message with the role `user`"),
        Some((index, Some(message))) if message.role != Role::User => {
            let message = "the last message that is not `system` must be `user`";
            array.refuse_key(index, "role", message);
        }
        Some((index, Some(message)))
            if message.content.trim().is_empty() && message.attachments.is_empty() =>
        {
            array.refuse_key(index, "content", "the last user message must not be empty");
        }
        Some(_) => {}
    }
    let last = last.map(|(index, _)| index);
    for (index, message) in read.iter().enumerate() {
        let attached = message.as_ref().map_or(&[][..], |m| &m.attachments);
        if !attached.is_empty() && Some(index) != last {
            let message = "only the last user message can have attachments";
            array.refuse_key(index, "attachments", message);
        }
    }
}

fn message(node: Node<'_, '_>) -> Option<PromptMessage> {
    let fields = node.fields()?;
    let role = fields.require("role").and_then(|node| node.keyword());
    let content = fields.require("content").and_then(content);
    let attachments = attachments::read(&fields);
    Some(PromptMessage {
        unfinished: false,
        role: role?,
        content: content?,
        attachments,
        retained: Vec::new(),
        compacted: None,
    })
}

fn content(node: Node<'_, '_>) -> Option<String> {
    let text = if node.value().is_array() {
        join_parts(node)?
    } else {
        node.string()?.to_owned()
    };
    node.has_chars_within(&text, limits::MESSAGE_MAX_CHARS)
        .then_some(text)
}

/// Text parts, one per line. Other parts are refused: ignoring a file would make the model answer another question.
fn join_parts(node: Node<'_, '_>) -> Option<String> {
    let parts = node.array(limits::MESSAGE_PARTS_MAX)?;
    let texts: Vec<Option<&str>> = parts.iter().map(part).collect();
    let texts: Option<Vec<&str>> = texts.into_iter().collect();
    Some(texts?.join("\n"))
}

fn part<'v>(node: Node<'v, '_>) -> Option<&'v str> {
    if !node.value().is_object() {
        node.refuse("expected a part like {\"type\":\"text\",\"text\":…}");
        return None;
    }
    let fields = node.fields()?;
    match fields.require("type")?.string()? {
        "text" | "input_text" => fields.require("text")?.string(),
        other => {
            let message = format_args!("{WHERE_FILES_GO}, got `{}`", Excerpt(other));
            fields.refuse("type", message);
            None
        }
    }
}
