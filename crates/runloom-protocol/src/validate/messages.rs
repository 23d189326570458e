//! `prompt` or `messages`, as one list of messages.

use serde_json::Value;

use super::attachments;
use super::fields::{Fields, string, within_chars, within_count};
use super::issues::{Issues, Path, Short};
use crate::limits;
use crate::spec::{PromptMessage, Role};

/// Where files go, for whoever put them elsewhere.
const WHERE_FILES_GO: &str = "files go into `attachments` of the last user message in `messages`";

pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<PromptMessage> {
    // An answer that never saw the file would be worse than none.
    let attached = fields.get("attachments").and_then(Value::as_array);
    if attached.is_some_and(|files| !files.is_empty()) {
        fields.refuse("attachments", WHERE_FILES_GO, issues);
    }
    match (fields.get("prompt"), fields.get("messages")) {
        (None, None) => {
            let message = "is required: give either `prompt` or `messages`";
            fields.refuse("prompt", message, issues);
            Vec::new()
        }
        (Some(_), None) => prompt(fields, issues),
        (None, Some(_)) => list(fields, issues),
        (Some(_), Some(_)) => {
            fields.refuse(
                "prompt",
                "give either `prompt` or `messages`, not both",
                issues,
            );
            prompt(fields, issues);
            list(fields, issues)
        }
    }
}

fn prompt(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<PromptMessage> {
    let Some(text) = fields.text("prompt", limits::MESSAGE_MAX_CHARS, issues) else {
        return Vec::new();
    };
    if text.trim().is_empty() {
        fields.refuse("prompt", "must not be empty", issues);
    }
    vec![PromptMessage::new(Role::User, text)]
}

fn list(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<PromptMessage> {
    let Some(array) = fields.array("messages", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("messages");
    if !within_count(array.len(), limits::MESSAGES_MAX, &path, issues) {
        return Vec::new();
    }
    if array.is_empty() {
        issues.add(&path, "must have at least one message");
        return Vec::new();
    }
    let read: Vec<_> = array
        .iter()
        .enumerate()
        .map(|(index, value)| message(value, &path.index(index), issues))
        .collect();
    check_last(&read, &path, issues);
    read.into_iter().flatten().collect()
}

/// The model answers the last message that is not an instruction, so a user must have said it. A message that could
/// not be read has its own issue and is not judged here.
fn check_last(read: &[Option<PromptMessage>], path: &Path<'_>, issues: &mut Issues) {
    let is_system = |m: &Option<PromptMessage>| m.as_ref().is_some_and(|m| m.role == Role::System);
    let last = read.iter().enumerate().rfind(|(_, m)| !is_system(m));
    match last {
        None => issues.add(path, "must have a message with the role `user`"),
        Some((index, Some(message))) if message.role != Role::User => issues.add(
            &path.index(index).key("role"),
            "the last message that is not `system` must be `user`",
        ),
        Some((index, Some(message)))
            if message.content.trim().is_empty() && message.attachments.is_empty() =>
        {
            issues.add(
                &path.index(index).key("content"),
                "the last user message must not be empty",
            );
        }
        Some(_) => {}
    }
    let last = last.map(|(index, _)| index);
    for (index, message) in read.iter().enumerate() {
        let attached = message.as_ref().map_or(&[][..], |m| &m.attachments);
        if !attached.is_empty() && Some(index) != last {
            let message = "only the last user message can have attachments";
            issues.add(&path.index(index).key("attachments"), message);
        }
    }
}

fn message(value: &Value, path: &Path<'_>, issues: &mut Issues) -> Option<PromptMessage> {
    let fields = Fields::of(value, path, issues)?;
    let role = role(&fields, issues);
    let content = content(&fields, issues);
    let attachments = attachments::read(&fields, issues);
    Some(PromptMessage {
        role: role?,
        content: content?,
        attachments,
        retained: Vec::new(),
    })
}

fn role(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Role> {
    fields.require("role", issues)?;
    match fields.str("role", issues)? {
        "system" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        other => {
            let wanted = "expected `system`, `user` or `assistant`";
            fields.refuse(
                "role",
                format_args!("{wanted}, got `{}`", Short(other)),
                issues,
            );
            None
        }
    }
}

fn content(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<String> {
    let value = fields.require("content", issues)?;
    let path = fields.path.key("content");
    let text = match value {
        Value::Array(parts) => join_parts(parts, &path, issues)?,
        _ => string(value, &path, issues)?.to_owned(),
    };
    within_chars(&text, limits::MESSAGE_MAX_CHARS, &path, issues).then_some(text)
}

/// Text parts, one per line. A part that is not text is refused: dropping a file in silence would make the model
/// answer a question that was not asked.
fn join_parts(parts: &[Value], path: &Path<'_>, issues: &mut Issues) -> Option<String> {
    if !within_count(parts.len(), limits::MESSAGE_PARTS_MAX, path, issues) {
        return None;
    }
    let mut texts = Vec::with_capacity(parts.len());
    for (index, value) in parts.iter().enumerate() {
        texts.push(part(value, &path.index(index), issues));
    }
    let texts: Option<Vec<&str>> = texts.into_iter().collect();
    Some(texts?.join("\n"))
}

fn part<'v>(value: &'v Value, path: &Path<'_>, issues: &mut Issues) -> Option<&'v str> {
    let Some(object) = value.as_object() else {
        issues.add(path, "expected a part like {\"type\":\"text\",\"text\":…}");
        return None;
    };
    let fields = Fields::new(object, path);
    fields.require("type", issues)?;
    match fields.str("type", issues)? {
        "text" | "input_text" => {
            let text = fields.require("text", issues)?;
            string(text, &path.key("text"), issues)
        }
        other => {
            let message = WHERE_FILES_GO;
            fields.refuse(
                "type",
                format_args!("{message}, got `{}`", Short(other)),
                issues,
            );
            None
        }
    }
}
