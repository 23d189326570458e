//! Both generations of the protocol over one model: what we send, and what we read of an answer.
//!
//! Answers are read leniently, field by field: agents mix the generations, and JSON with protobuf's JSON.

use serde_json::{Map, Value, json};

use super::card::Generation;
use crate::content::Content;

/// One message to an agent.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) context_id: Option<String>,
}

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The JSON of the 0.3 documents.
    Kinds,
    /// 0.3 over HTTP as protobuf writes it: `content` for `parts`.
    Protobuf03,
    /// 1.0.
    Fields,
}

/// The parameters of `message/send`. We ask for an answer at once and poll: a long task then survives every proxy in between,
/// and its id is known when it has to be cancelled.
pub(super) fn send_params(message: &Outgoing, spelling: Spelling, tenant: Option<&str>) -> Value {
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
    let configuration = match spelling {
        Spelling::Kinds => {
            body.insert("kind".to_owned(), json!("message"));
            body.insert("role".to_owned(), json!("user"));
            body.insert(
                "parts".to_owned(),
                json!([{"kind": "text", "text": message.text}]),
            );
            json!({"acceptedOutputModes": modes, "blocking": false})
        }
        Spelling::Protobuf03 => {
            body.insert("role".to_owned(), json!("ROLE_USER"));
            body.insert("content".to_owned(), json!([{"text": message.text}]));
            json!({"acceptedOutputModes": modes, "blocking": false})
        }
        Spelling::Fields => {
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

/// The methods' names in a generation: send, get, cancel.
pub(super) fn methods(generation: Generation) -> [&'static str; 3] {
    match generation {
        Generation::V03 => ["message/send", "tasks/get", "tasks/cancel"],
        Generation::V10 => ["SendMessage", "GetTask", "CancelTask"],
    }
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    /// The answer itself.
    Message(Value),
    /// Work that has an id and a state.
    Task {
        id: String,
        state: State,
        task: Value,
    },
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Submitted, working, or a word that we do not know: it may still end.
    Running,
    /// Completed.
    Done,
    /// Ended or stuck; the word for it.
    Stopped(String),
}

impl Reply {
    /// Reads a result of any spelling; `None` when it is no answer of the protocol.
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

fn task_of(task: &Value) -> Option<Reply> {
    let id = task.get("id")?.as_str()?.to_owned();
    let state = task.get("status")?.get("state").and_then(Value::as_str);
    Some(Reply::Task {
        id,
        state: state_of(state.unwrap_or_default()),
        task: task.clone(),
    })
}

/// `input-required`, `TASK_STATE_INPUT_REQUIRED` and their like, in one spelling.
fn state_of(word: &str) -> State {
    let word = word.to_ascii_lowercase().replace('_', "-");
    let word = word.strip_prefix("task-state-").unwrap_or(&word);
    match word {
        "completed" => State::Done,
        "failed" | "canceled" | "cancelled" | "rejected" | "input-required" | "auth-required" => {
            State::Stopped(word.to_owned())
        }
        _ => State::Running,
    }
}

/// What a task has to say: its artifacts, then the message of its status, then the agent's last word.
pub(super) fn task_content(task: &Value) -> Content {
    let mut content = Content::new();
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
        let spoken = history.into_iter().flatten().rev().find(|message| {
            let role = message.get("role").and_then(Value::as_str);
            role.is_some_and(|role| role.to_ascii_lowercase().ends_with("agent"))
        });
        if let Some(message) = spoken {
            parts(message, &mut content);
        }
    }
    content
}

/// What a message has to say.
pub(super) fn message_content(message: &Value) -> Content {
    let mut content = Content::new();
    parts(message, &mut content);
    content
}

fn parts(holder: &Value, content: &mut Content) {
    let list = holder.get("parts").or_else(|| holder.get("content"));
    let list = list.and_then(Value::as_array);
    for (index, part) in list.into_iter().flatten().enumerate() {
        one_part(part, index, content);
    }
}

fn one_part(part: &Value, index: usize, content: &mut Content) {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        content.text(text);
        return;
    }
    if let Some(data) = part.get("data") {
        // Protobuf's JSON of 0.3 packs data into an object of its own.
        let bare = part.get("kind").is_none() && part.get("mediaType").is_none();
        let only = data.as_object().filter(|data| bare && data.len() == 1);
        let inner = only.and_then(|data| data.get("data")).unwrap_or(data);
        content.text(&inner.to_string());
        return;
    }
    // In 1.0 a file's fields stand in the part itself.
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
    fn answers_of_both_generations_are_read_alike() {
        let messages = [
            json!({"kind": "message", "role": "agent", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]}),
            json!({"message": {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": "hi"}]}}),
            json!({"msg": {"role": "ROLE_AGENT", "messageId": "m", "content": [{"text": "hi"}]}}),
        ];
        for message in messages {
            let Some(Reply::Message(found)) = Reply::read(&message) else {
                panic!("{message} is a message");
            };
            assert_eq!(message_content(&found).success().content, "hi");
        }
        let tasks = [
            json!({"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [{"parts": [{"kind": "text", "text": "hi"}]}]}),
            json!({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "hi"}]}]}}),
        ];
        for task in tasks {
            let Some(Reply::Task { id, state, task }) = Reply::read(&task) else {
                panic!("{task} is a task");
            };
            assert_eq!((id.as_str(), state), ("t", State::Done));
            assert_eq!(task_content(&task).success().content, "hi");
        }
        assert_eq!(Reply::read(&json!({"ok": true})), None);
        assert_eq!(Reply::read(&json!("hi")), None);
    }

    #[test]
    fn states_are_known_in_either_spelling() {
        for word in ["input-required", "TASK_STATE_INPUT_REQUIRED"] {
            assert_eq!(state_of(word), State::Stopped("input-required".to_owned()));
        }
        for word in ["submitted", "TASK_STATE_WORKING", "", "brand-new"] {
            assert_eq!(state_of(word), State::Running, "{word}");
        }
    }

    #[test]
    fn every_kind_of_part_is_passed_on() {
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
