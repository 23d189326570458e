//! `RunAgentInput` of AG-UI.

use std::collections::HashSet;

use serde_json::Value;

use super::{approval, attachments, documents, guards, spec};
use crate::ag_ui::{
    ContextEntry, InputMessage, MessageBody, ProtocolVersion, ResumeEntry, RunAgentInput,
    RunloomProps,
};
use crate::approval::ApprovalVerdict;
use crate::attachment::Attachment;
use crate::check::documents::{description, document};
use crate::check::names::is_schema_name;
use crate::check::reference::{agent_id, model_id};
use crate::check::unknown::UnknownFields;
use crate::limits;
use crate::read::{Excerpt, Fields, Node};
use crate::tools::{self, LocalTool, ToolRef};

/// Characters of `threadId` and `runId`.
const ID_MAX_CHARS: usize = 200;
/// Messages of a request.
const MESSAGES_MAX: usize = 1000;
/// Tools of a front end.
const TOOLS_MAX: usize = 64;
/// Bytes of `context`, and of `state`.
const CONTEXT_MAX_BYTES: usize = 64 * 1024;
/// Entries of `context` and `resume`.
const ENTRIES_MAX: usize = 256;

pub(super) fn read(fields: &Fields<'_, '_>) -> RunAgentInput {
    RunAgentInput {
        thread_id: id(fields, "threadId"),
        run_id: id(fields, "runId"),
        parent_run_id: fields.text("parentRunId", ID_MAX_CHARS).map(str::to_owned),
        version: version(fields),
        messages: messages(fields),
        tools: front_end_tools(fields),
        context: context(fields),
        state: state(fields),
        resume: resume(fields),
        runloom: runloom(fields),
    }
}

fn id(fields: &Fields<'_, '_>, key: &'static str) -> String {
    let Some(node) = fields.require(key) else {
        return String::new();
    };
    let text = node.string().unwrap_or_default();
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if node.value().is_string() && !(printable && (1..=ID_MAX_CHARS).contains(&text.len())) {
        node.refuse(format_args!(
            "must have 1 to {ID_MAX_CHARS} printable ASCII characters"
        ));
    }
    text.to_owned()
}

fn version(fields: &Fields<'_, '_>) -> ProtocolVersion {
    let Some(text) = fields.text("protocolVersion", limits::LABEL_MAX_CHARS) else {
        return ProtocolVersion::Unknown;
    };
    let major = text
        .split('.')
        .next()
        .and_then(|word| word.parse::<u32>().ok());
    match major {
        Some(1..) => ProtocolVersion::One,
        _ => ProtocolVersion::Unknown,
    }
}

fn messages(fields: &Fields<'_, '_>) -> Vec<InputMessage> {
    let Some(array) = fields
        .require("messages")
        .and_then(|node| node.array(MESSAGES_MAX))
    else {
        return Vec::new();
    };
    let users = array.iter().enumerate();
    let users = users.filter(|(_, node)| node.value()["role"] == "user");
    let last_user = users.last().map(|(index, _)| index);
    let mut seen = HashSet::new();
    let numbered = array.iter().enumerate();
    numbered
        .filter_map(|(index, node)| {
            let files = if Some(index) == last_user {
                Files::Attached
            } else {
                Files::Ignored
            };
            let message = message(node, files)?;
            if !seen.insert(message.id.clone()) {
                array.refuse_key(index, "id", "must not be the id of another message");
            }
            Some(message)
        })
        .collect()
}

/// What becomes of the files of a user message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Attached,
    Ignored,
}

fn message(node: Node<'_, '_>, files: Files) -> Option<InputMessage> {
    let fields = node.fields()?;
    let id = fields.required_text("id", limits::REFERENCE_MAX_CHARS);
    let role = fields.require("role")?;
    let body = match role.string()? {
        "user" => user(&fields, files),
        "assistant" => MessageBody::Assistant {
            text: fields.get("content").map(text_of).unwrap_or_default(),
            calls: node.value()["toolCalls"].as_array().map_or(0, Vec::len),
        },
        "tool" => tool(&fields)?,
        "system" | "developer" => MessageBody::Instruction {
            text: fields.require("content").map(text_of).unwrap_or_default(),
            sent: node.value().clone(),
        },
        "activity" | "reasoning" => MessageBody::Skipped,
        other => {
            let wanted = "expected user, assistant, tool, system, developer, activity or reasoning";
            role.refuse(format_args!("{wanted}, got `{}`", Excerpt(other)));
            return None;
        }
    };
    Some(InputMessage {
        id: id?.to_owned(),
        body,
    })
}

fn user(fields: &Fields<'_, '_>, files: Files) -> MessageBody {
    let Some(content) = fields.require("content") else {
        return MessageBody::Skipped;
    };
    let attachments = match files {
        Files::Attached => files_of(&content),
        Files::Ignored => Vec::new(),
    };
    MessageBody::User {
        text: text_of(content),
        attachments,
    }
}

fn tool(fields: &Fields<'_, '_>) -> Option<MessageBody> {
    let call = fields.required_text("toolCallId", limits::TOOL_USE_ID_MAX_CHARS);
    let text = fields.require("content").map(text_of).unwrap_or_default();
    let error = fields.get("error").and_then(|node| {
        let error = node.string()?;
        if error.len() > limits::TOOL_ERROR_MAX_BYTES {
            let (max, got) = (limits::TOOL_ERROR_MAX_BYTES, error.len());
            node.refuse(format_args!("must be at most {max} bytes, got {got}"));
        }
        Some(error.to_owned())
    });
    Some(MessageBody::Tool {
        tool_call_id: call?.to_owned(),
        text,
        error: error.filter(|error| !error.is_empty()),
    })
}

/// A text, or the text parts of a list, one per line.
fn text_of(node: Node<'_, '_>) -> String {
    let text = if node.value().is_array() {
        let parts = node.array(limits::MESSAGE_PARTS_MAX);
        let texts: Vec<&str> = parts
            .iter()
            .flat_map(|parts| parts.iter())
            .filter(|part| part.value()["type"] == "text")
            .filter_map(|part| part.fields()?.require("text")?.string())
            .collect();
        texts.join("\n")
    } else {
        node.string().unwrap_or_default().to_owned()
    };
    node.has_chars_within(&text, limits::MESSAGE_MAX_CHARS);
    text
}

fn files_of(content: &Node<'_, '_>) -> Vec<Attachment> {
    if !content.value().is_array() {
        return Vec::new();
    }
    let Some(parts) = content.array(limits::MESSAGE_PARTS_MAX) else {
        return Vec::new();
    };
    let files: Vec<Attachment> = parts.iter().filter_map(file_of).collect();
    if files.len() > limits::ATTACHMENTS_MAX {
        let (max, got) = (limits::ATTACHMENTS_MAX, files.len());
        content.refuse(format_args!("must have at most {max} files, got {got}"));
    }
    let (total, max) = (
        attachments::total_size(&files),
        limits::ATTACHMENTS_MAX_BYTES,
    );
    if total > max as u64 {
        content.refuse(format_args!(
            "files must be at most {max} bytes decoded, all together, got {total}"
        ));
    }
    files
}

/// The file of a part. `binary` is how clients before 1.0 send every kind of file.
fn file_of(node: Node<'_, '_>) -> Option<Attachment> {
    let part = node.fields()?;
    let kind = part.require("type")?;
    match kind.string()? {
        "text" => None,
        "image" | "audio" | "document" => {
            let source = part.require("source")?.fields()?;
            let origin = source.require("type")?;
            match origin.string()? {
                "data" => attachments::data_part(&source, "value"),
                "url" => attachments::url_part(&source, "value"),
                other => {
                    let wanted = "expected data or url";
                    origin.refuse(format_args!("{wanted}, got `{}`", Excerpt(other)));
                    None
                }
            }
        }
        "binary" if part.has("data") => attachments::data_part(&part, "data"),
        "binary" => attachments::url_part(&part, "url"),
        other => {
            let wanted = "expected text, image, audio or document";
            kind.refuse(format_args!("{wanted}, got `{}`", Excerpt(other)));
            None
        }
    }
}

fn front_end_tools(fields: &Fields<'_, '_>) -> Vec<LocalTool> {
    let mut seen = HashSet::new();
    let read = fields.list("tools", TOOLS_MAX, |node| {
        let tool = node.fields()?;
        let name = tool.require("name")?;
        let text = name.string()?;
        if !is_schema_name(text) {
            let wanted = "expected 1 to 64 of [a-zA-Z0-9_-]";
            name.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
        } else if !seen.insert(text) {
            name.refuse(format_args!("duplicate tool name `{text}`"));
        }
        Some(LocalTool {
            name: text.to_owned(),
            description: description(&tool),
            parameters: document(&tool, "parameters"),
            output_schema: None,
            long_running: false,
            // All calls of a turn are published together.
            read_only: true,
            retain: false,
        })
    });
    read.unwrap_or_default()
}

fn resume(fields: &Fields<'_, '_>) -> Vec<ResumeEntry> {
    let mut seen = HashSet::new();
    let read = fields.list("resume", ENTRIES_MAX, |node| {
        let entry = node.fields()?;
        let interrupt_id = entry.required_text("interruptId", limits::REFERENCE_MAX_CHARS)?;
        if !seen.insert(interrupt_id) {
            entry.refuse("interruptId", "must not be answered twice");
        }
        let status = entry.require("status")?;
        let (decision, input) = match status.string()? {
            "cancelled" => (ApprovalVerdict::Deny, None),
            "resolved" => decision(&entry.require("payload")?.fields()?)?,
            other => {
                let wanted = "expected resolved or cancelled";
                status.refuse(format_args!("{wanted}, got `{}`", Excerpt(other)));
                return None;
            }
        };
        Some(ResumeEntry {
            interrupt_id: interrupt_id.to_owned(),
            decision,
            input,
        })
    });
    read.unwrap_or_default()
}

/// The decision of a payload, and the arguments that it changes.
fn decision(payload: &Fields<'_, '_>) -> Option<(ApprovalVerdict, Option<Value>)> {
    let decision = match payload.require("approved")?.boolean()? {
        true => ApprovalVerdict::Approve,
        false => ApprovalVerdict::Deny,
    };
    Some((decision, approval::changed_arguments(payload, decision)))
}

fn context(fields: &Fields<'_, '_>) -> Vec<ContextEntry> {
    if let Some(node) = fields.get("context") {
        node.has_bytes_within(CONTEXT_MAX_BYTES);
    }
    let read = fields.list("context", ENTRIES_MAX, |node| {
        let entry = node.fields()?;
        Some(ContextEntry {
            description: entry.string("description").unwrap_or_default().to_owned(),
            value: entry.require("value")?.string()?.to_owned(),
        })
    });
    read.unwrap_or_default()
}

fn state(fields: &Fields<'_, '_>) -> Option<Value> {
    let node = fields.get("state")?;
    node.has_bytes_within(CONTEXT_MAX_BYTES);
    let is_empty = node
        .value()
        .as_object()
        .is_some_and(|state| state.is_empty());
    (!is_empty).then(|| node.value().clone())
}

/// The rest of `forwardedProps` belongs to others.
fn runloom(fields: &Fields<'_, '_>) -> RunloomProps {
    let Some(forwarded) = fields.get("forwardedProps") else {
        return RunloomProps::default();
    };
    if !forwarded.value().is_object() {
        return RunloomProps::default();
    }
    let forwarded = forwarded.fields_or_empty();
    let Some(given) = forwarded.fields("runloom") else {
        return RunloomProps::default();
    };
    let props = RunloomProps {
        agent_id: agent_id(&given),
        system_prompt: given
            .text("systemPrompt", limits::MESSAGE_MAX_CHARS)
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned),
        model_id: model_id(&given, "modelId"),
        reasoning_level: spec::reasoning_level(&given),
        budgets: guards::budgets(&given, UnknownFields::Ignored),
        metadata: documents::metadata(&given),
        tools: tools::read(&given).unwrap_or_default(),
        on_disconnect: given.keyword("onDisconnect"),
    };
    for (index, tool) in props.tools.iter().enumerate() {
        if !ToolRef::is_server_resolved(tool) {
            let message =
                "only tools of the server go here; tools of the front end go into `tools`";
            given.refuse(&format!("tools[{index}].kind"), message);
        }
    }
    if props.agent_id.is_some() && props.system_prompt.is_some() {
        given.refuse(
            "systemPrompt",
            "give either `agentId` or `systemPrompt`, not both",
        );
    }
    given.refuse_misspelt();
    props
}

#[cfg(test)]
#[path = "ag_ui_tests.rs"]
mod tests;
