//! Both protocol versions over one model: requests and responses.
//!
//! Responses are read leniently, field by field, because agents mix the versions, and JSON with protobuf's JSON.

use serde_json::{Map, Value, json};

use super::card::A2aVersion;
use crate::content::ResultContent;

/// One message to an agent.
#[derive(Debug, Clone)]
pub(super) struct UserMessage {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) context_id: Option<String>,
}

/// JSON format of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageFormat {
    /// The JSON of the 0.3 specification.
    Kinds,
    /// 0.3 over HTTP in protobuf's JSON: `content` instead of `parts`.
    Protobuf03,
    /// 1.0.
    Fields,
}

/// The parameters of `message/send`. They ask for an immediate response, and the task is polled: a long task survives
/// proxies with short timeouts, and its id is known when it has to be cancelled.
pub(super) fn send_params(
    message: &UserMessage,
    format: MessageFormat,
    tenant: Option<&str>,
) -> Value {
    let mut body = Map::new();
    body.insert("messageId".to_owned(), json!(message.id));
    if let Some(context) = &message.context_id {
        body.insert("contextId".to_owned(), json!(context));
    }
    let modes = json!([
        "text/plain",
        "application/json",
        "image/png",
        "image/jpeg",
        "application/pdf"
    ]);
    let configuration = match format {
        MessageFormat::Kinds => {
            body.insert("kind".to_owned(), json!("message"));
            body.insert("role".to_owned(), json!("user"));
            body.insert(
                "parts".to_owned(),
                json!([{"kind": "text", "text": message.text}]),
            );
            json!({"acceptedOutputModes": modes, "blocking": false})
        }
        MessageFormat::Protobuf03 => {
            body.insert("role".to_owned(), json!("ROLE_USER"));
            body.insert("content".to_owned(), json!([{"text": message.text}]));
            json!({"acceptedOutputModes": modes, "blocking": false})
        }
        MessageFormat::Fields => {
            body.insert("role".to_owned(), json!("ROLE_USER"));
            body.insert("parts".to_owned(), json!([{"text": message.text}]));
            json!({"acceptedOutputModes": modes, "returnImmediately": true})
        }
    };
    let mut params = json!({"message": body, "configuration": configuration});
    if let Some(tenant) = tenant {
        params["tenant"] = json!(tenant);
    }
    params
}

/// Method names of a protocol version.
pub(super) struct MethodNames {
    pub(super) send: &'static str,
    pub(super) get: &'static str,
    pub(super) cancel: &'static str,
}

/// The method names of a version.
pub(super) fn methods(version: A2aVersion) -> MethodNames {
    match version {
        A2aVersion::V03 => MethodNames {
            send: "message/send",
            get: "tasks/get",
            cancel: "tasks/cancel",
        },
        A2aVersion::V10 => MethodNames {
            send: "SendMessage",
            get: "GetTask",
            cancel: "CancelTask",
        },
    }
}

/// An agent's response.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AgentReply {
    /// A message: the result itself.
    Message(Value),
    /// A task with an id and a state.
    Task {
        id: String,
        state: TaskState,
        task: Value,
    },
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Submitted, working or unknown: it may still end.
    Running,
    /// Completed.
    Completed,
    /// Any other final or interrupted state, by its name.
    Stopped(String),
}

impl AgentReply {
    /// Reads a result of either version; `None` when it is not one of the protocol.
    pub(super) fn read(result: &Value) -> Option<Self> {
        let object = result.as_object()?;
        let inner = |field: &str| object.get(field).filter(|value| value.is_object());
        if let Some(task) = inner("task") {
            return task_of(task);
        }
        let is_message = object.contains_key("parts") || object.contains_key("content");
        if is_message && !object.contains_key("status") {
            return Some(Self::Message(result.clone()));
        }
        if let Some(message) = inner("message").or_else(|| inner("msg")) {
            return Some(Self::Message(message.clone()));
        }
        task_of(result)
    }
}

fn task_of(task: &Value) -> Option<AgentReply> {
    let id = task.get("id")?.as_str()?.to_owned();
    let state = task.get("status")?.get("state").and_then(Value::as_str);
    Some(AgentReply::Task {
        id,
        state: parse_state(state.unwrap_or_default()),
        task: task.clone(),
    })
}

/// Parses a state in either version's form: `input-required` or `TASK_STATE_INPUT_REQUIRED`.
fn parse_state(name: &str) -> TaskState {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let name = name.strip_prefix("task-state-").unwrap_or(&name);
    match name {
        "completed" => TaskState::Completed,
        "failed" | "canceled" | "cancelled" | "rejected" | "input-required" | "auth-required" => {
            TaskState::Stopped(name.to_owned())
        }
        _ => TaskState::Running,
    }
}

/// The content of a task: its artifacts, then the message of its status; if both are empty, the agent's last message.
pub(super) fn task_content(task: &Value) -> ResultContent {
    let mut content = ResultContent::new();
    let artifacts = task.get("artifacts").and_then(Value::as_array);
    for artifact in artifacts.into_iter().flatten() {
        parts(artifact, &mut content);
    }
    if let Some(message) = task
        .get("status")
        .and_then(|status| status.get("message").or_else(|| status.get("update")))
    {
        parts(message, &mut content);
    }
    if content.is_empty() {
        let history = task.get("history").and_then(Value::as_array);
        let last = history.into_iter().flatten().rev().find(|message| {
            let role = message.get("role").and_then(Value::as_str);
            role.is_some_and(|role| role.to_ascii_lowercase().ends_with("agent"))
        });
        if let Some(message) = last {
            parts(message, &mut content);
        }
    }
    content
}

/// The content of a message.
pub(super) fn message_content(message: &Value) -> ResultContent {
    let mut content = ResultContent::new();
    parts(message, &mut content);
    content
}

fn parts(holder: &Value, content: &mut ResultContent) {
    let list = holder.get("parts").or_else(|| holder.get("content"));
    let list = list.and_then(Value::as_array);
    for (index, part) in list.into_iter().flatten().enumerate() {
        one_part(part, index, content);
    }
}

fn one_part(part: &Value, index: usize, content: &mut ResultContent) {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        content.text(text);
        return;
    }
    if let Some(data) = part.get("data") {
        // Protobuf's JSON of 0.3 wraps data in an object.
        let bare = part.get("kind").is_none() && part.get("mediaType").is_none();
        let only = data.as_object().filter(|data| bare && data.len() == 1);
        let inner = only.and_then(|data| data.get("data")).unwrap_or(data);
        content.text(&inner.to_string());
        return;
    }
    // In 1.0 the fields of a file are fields of the part.
    let file = part.get("file").unwrap_or(part);
    let field = |names: &[&str]| {
        let found = names.iter().find_map(|name| file.get(name)?.as_str());
        found.filter(|text| !text.is_empty())
    };
    let mime_type = field(&["mimeType", "mediaType"]).unwrap_or("application/octet-stream");
    let numbered = format!("file-{}", index + 1);
    let name = field(&["name", "filename"]).unwrap_or(&numbered);
    if let Some(bytes) = field(&["bytes", "fileWithBytes", "raw"]) {
        content.file(name, mime_type, bytes);
    } else if let Some(uri) = field(&["uri", "fileWithUri", "url"]) {
        content.text(&format!("[file {name} ({mime_type}): {uri}]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_responses_of_both_versions() {
        let messages = [
            json!({"kind": "message", "role": "agent", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]}),
            json!({"message": {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": "hi"}]}}),
            json!({"msg": {"role": "ROLE_AGENT", "messageId": "m", "content": [{"text": "hi"}]}}),
        ];
        for message in messages {
            let Some(AgentReply::Message(found)) = AgentReply::read(&message) else {
                panic!("{message} is a message");
            };
            assert_eq!(message_content(&found).success().content, "hi");
        }
        let tasks = [
            json!({"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [{"parts": [{"kind": "text", "text": "hi"}]}]}),
            json!({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "hi"}]}]}}),
        ];
        for task in tasks {
            let Some(AgentReply::Task { id, state, task }) = AgentReply::read(&task) else {
                panic!("{task} is a task");
            };
            assert_eq!((id.as_str(), state), ("t", TaskState::Completed));
            assert_eq!(task_content(&task).success().content, "hi");
        }
        assert_eq!(AgentReply::read(&json!({"ok": true})), None);
        assert_eq!(AgentReply::read(&json!("hi")), None);
    }

    #[test]
    fn parses_states_of_both_versions() {
        for name in ["input-required", "TASK_STATE_INPUT_REQUIRED"] {
            let stopped = TaskState::Stopped("input-required".to_owned());
            assert_eq!(parse_state(name), stopped);
        }
        for name in ["submitted", "TASK_STATE_WORKING", "", "brand-new"] {
            assert_eq!(parse_state(name), TaskState::Running, "{name}");
        }
    }

    #[test]
    fn reads_every_kind_of_part() {
        let message = json!({"parts": [
            {"kind": "text", "text": "text"},
            {"kind": "data", "data": {"a": 1}},
            {"data": {"data": {"b": 2}}},
            {"kind": "file", "file": {"name": "a.png", "mimeType": "image/png", "bytes": "AAAA"}},
            {"raw": "AAAA", "mediaType": "image/png", "filename": "b.png"},
            {"kind": "file", "file": {"uri": "https://x.example/c.pdf", "mimeType": "application/pdf"}},
            {"unknown": true},
        ]});
        let outcome = message_content(&message).success();
        let names: Vec<&str> = outcome
            .files
            .iter()
            .map(|file| file.filename.as_str())
            .collect();
        assert_eq!(names, ["a.png", "b.png"]);
        assert_eq!(
            outcome.content,
            "text\n{\"a\":1}\n{\"b\":2}\n[file file-6 (application/pdf): https://x.example/c.pdf]"
        );
    }
}
