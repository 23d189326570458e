//! Both versions of A2A over one model: reading requests, and showing a run as a task.
//!
//! Version 0.3 marks objects by `kind`, 1.0 by the name of their field; 1.0 writes enums as protobuf does. Requests
//! are read leniently, because clients mix the versions.

use runloom_protocol::resource::{RunSnapshot, RunStatus};
use serde_json::{Map, Value, json};

use crate::rpc::{Fault, INVALID_PARAMS};
use crate::run_summary::failure;

/// Unknown task.
pub(super) const TASK_NOT_FOUND: i64 = -32001;
/// The task has ended.
pub(super) const TASK_NOT_CANCELABLE: i64 = -32002;
/// Push notifications are not supported.
pub(super) const PUSH_NOT_SUPPORTED: i64 = -32003;
/// Unsupported operation.
pub(super) const UNSUPPORTED: i64 = -32004;
/// A content type that is not supported.
pub(super) const CONTENT_TYPE: i64 = -32005;
/// There is no extended card.
pub(super) const NO_EXTENDED_CARD: i64 = -32007;
/// Unsupported protocol version.
pub(super) const VERSION_NOT_SUPPORTED: i64 = -32009;

/// The id of the artifact that holds the answer.
const ANSWER: &str = "answer";

/// The version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 0.2 and 0.3.
    V03,
    /// 1.0.
    V10,
}

/// The operation that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    Cancel,
    Subscribe,
    List,
    ExtendedCard,
    Push,
}

/// The operation of a method name, in either version.
pub(super) fn method(name: &str) -> Option<(Version, Method)> {
    Some(match name {
        "message/send" => (Version::V03, Method::Send),
        "message/stream" => (Version::V03, Method::Stream),
        "tasks/get" => (Version::V03, Method::Get),
        "tasks/cancel" => (Version::V03, Method::Cancel),
        "tasks/resubscribe" => (Version::V03, Method::Subscribe),
        "tasks/list" => (Version::V03, Method::List),
        "agent/getAuthenticatedExtendedCard" => (Version::V03, Method::ExtendedCard),
        "SendMessage" => (Version::V10, Method::Send),
        "SendStreamingMessage" => (Version::V10, Method::Stream),
        "GetTask" => (Version::V10, Method::Get),
        "CancelTask" => (Version::V10, Method::Cancel),
        "SubscribeToTask" => (Version::V10, Method::Subscribe),
        "ListTasks" => (Version::V10, Method::List),
        "GetExtendedAgentCard" => (Version::V10, Method::ExtendedCard),
        name if name.starts_with("tasks/pushNotificationConfig/") => (Version::V03, Method::Push),
        name if name.ends_with("TaskPushNotificationConfig")
            || name.ends_with("TaskPushNotificationConfigs") =>
        {
            (Version::V10, Method::Push)
        }
        _ => return None,
    })
}

/// The version that `A2A-Version` names; 0.3 without the header.
pub(super) fn is_supported(version: &str) -> bool {
    let version = version.trim();
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    match (major, minor) {
        (Some("0"), Some(minor)) => matches!(minor, "2" | "3"),
        (Some("1"), _) => true,
        _ => version.is_empty(),
    }
}

/// A message as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) text: String,
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    /// The sender does not wait for the end.
    pub(super) at_once: bool,
}

/// Reads the parameters of `message/send`.
pub(super) fn incoming(params: &Map<String, Value>) -> Result<Incoming, Fault> {
    let wrong = |words: &str| Fault::new(INVALID_PARAMS, words);
    let message = params
        .get("message")
        .and_then(Value::as_object)
        .ok_or_else(|| wrong("`message` must be an object."))?;
    let role = message.get("role").and_then(Value::as_str);
    if !matches!(role, None | Some("user" | "ROLE_USER")) {
        return Err(wrong("`message.role` must be `user`."));
    }
    let id = message.get("messageId").and_then(Value::as_str);
    if id.is_none_or(str::is_empty) {
        return Err(wrong("`message.messageId` must be a text."));
    }
    let parts = message.get("parts").and_then(Value::as_array);
    let parts = parts.filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(|| wrong("`message.parts` must have at least one part."))?;
    let texts: Result<Vec<String>, Fault> = parts.iter().enumerate().map(part).collect();
    let text = texts?.join("\n");
    if text.trim().is_empty() {
        return Err(wrong("`message.parts` says nothing."));
    }
    let field = |name: &str| match message.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(wrong(&format!("`message.{name}` must be a text."))),
    };
    let configuration = params.get("configuration").and_then(Value::as_object);
    let flag = |name: &str| configuration?.get(name)?.as_bool();
    Ok(Incoming {
        text,
        context: field("contextId")?,
        task: field("taskId")?,
        at_once: flag("blocking") == Some(false) || flag("returnImmediately") == Some(true),
    })
}

fn part((index, part): (usize, &Value)) -> Result<String, Fault> {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    if let Some(data) = part.get("data") {
        return Ok(data.to_string());
    }
    let words = format!("`message.parts[{index}]` is neither text nor data; files are not taken.");
    Err(Fault::new(CONTENT_TYPE, words))
}

/// The task id in the parameters.
pub(super) fn task_id(params: &Map<String, Value>) -> Result<&str, Fault> {
    let id = params.get("id").and_then(Value::as_str);
    id.ok_or_else(|| Fault::new(INVALID_PARAMS, "`id` must be the id of a task."))
}

impl Version {
    /// The state of a run.
    fn state(self, status: RunStatus) -> &'static str {
        match (self, status) {
            (Self::V03, RunStatus::Queued) => "submitted",
            (
                Self::V03,
                RunStatus::Running | RunStatus::WaitingTool | RunStatus::WaitingApproval,
            ) => "working",
            (Self::V03, RunStatus::Succeeded) => "completed",
            (Self::V03, RunStatus::Failed) => "failed",
            (Self::V03, RunStatus::Cancelled) => "canceled",
            (Self::V10, RunStatus::Queued) => "TASK_STATE_SUBMITTED",
            (
                Self::V10,
                RunStatus::Running | RunStatus::WaitingTool | RunStatus::WaitingApproval,
            ) => "TASK_STATE_WORKING",
            (Self::V10, RunStatus::Succeeded) => "TASK_STATE_COMPLETED",
            (Self::V10, RunStatus::Failed) => "TASK_STATE_FAILED",
            (Self::V10, RunStatus::Cancelled) => "TASK_STATE_CANCELED",
        }
    }

    fn text(self, text: &str) -> Value {
        match self {
            Self::V03 => json!({"kind": "text", "text": text}),
            Self::V10 => json!({"text": text}),
        }
    }

    /// A message of the agent.
    fn said(self, run: &RunSnapshot, id: &str, text: &str) -> Value {
        let mut message = match self {
            Self::V03 => json!({"kind": "message", "role": "agent"}),
            Self::V10 => json!({"role": "ROLE_AGENT"}),
        };
        message["messageId"] = json!(id);
        message["parts"] = json!([self.text(text)]);
        message["taskId"] = json!(run.id);
        message["contextId"] = json!(context(run));
        message
    }

    fn status(self, run: &RunSnapshot) -> Value {
        let moments = [&run.completed_at, &run.started_at];
        let moment = moments.into_iter().flatten().next();
        let mut status = json!({
            "state": self.state(run.status),
            "timestamp": moment.unwrap_or(&run.created_at),
        });
        if run.status == RunStatus::Failed {
            let id = format!("{}-status", run.id);
            status["message"] = self.said(run, &id, failure(run));
        }
        status
    }

    /// The answer of a succeeded run, as a message.
    pub(super) fn message(self, run: &RunSnapshot) -> Value {
        let text = run.final_text.as_deref().unwrap_or_default();
        let mut message = self.said(run, &format!("{}-answer", run.id), text);
        message["metadata"] = metadata(run);
        message
    }

    /// A run as a task.
    pub(super) fn task(self, run: &RunSnapshot) -> Value {
        let mut task = match self {
            Self::V03 => json!({"kind": "task"}),
            Self::V10 => json!({}),
        };
        task["id"] = json!(run.id);
        task["contextId"] = json!(context(run));
        task["status"] = self.status(run);
        let text = run.final_text.as_deref().filter(|text| !text.is_empty());
        if let Some(text) = text {
            task["artifacts"] = json!([self.artifact(text)]);
        }
        if run.status.is_terminal() {
            task["metadata"] = metadata(run);
        }
        task
    }

    fn artifact(self, text: &str) -> Value {
        json!({"artifactId": ANSWER, "name": ANSWER, "parts": [self.text(text)]})
    }

    /// The state of a run, as an event.
    pub(super) fn status_update(self, run: &RunSnapshot) -> Value {
        let mut update =
            json!({"taskId": run.id, "contextId": context(run), "status": self.status(run)});
        if run.status.is_terminal() {
            update["metadata"] = metadata(run);
        }
        if self == Self::V03 {
            update["kind"] = json!("status-update");
            update["final"] = json!(run.status.is_terminal());
        }
        update
    }

    /// A piece of the answer, as an event: appended to the pieces before it, or replacing them.
    pub(super) fn piece(self, run: &RunSnapshot, text: &str, append: bool, last: bool) -> Value {
        let mut update = json!({
            "taskId": run.id, "contextId": context(run), "artifact": self.artifact(text), "append": append, "lastChunk": last,
        });
        if self == Self::V03 {
            update["kind"] = json!("artifact-update");
        }
        update
    }

    /// A result under the field name that 1.0 uses.
    pub(super) fn named(self, name: &str, value: Value) -> Value {
        match self {
            Self::V03 => value,
            Self::V10 => json!({name: value}),
        }
    }

    /// The error in the form of this version: 1.0 requires a reason for programs.
    pub(super) fn fault(self, fault: Fault) -> Fault {
        let reason = match fault.code {
            TASK_NOT_FOUND => "TASK_NOT_FOUND",
            TASK_NOT_CANCELABLE => "TASK_NOT_CANCELABLE",
            PUSH_NOT_SUPPORTED => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            UNSUPPORTED => "UNSUPPORTED_OPERATION",
            CONTENT_TYPE => "CONTENT_TYPE_NOT_SUPPORTED",
            NO_EXTENDED_CARD => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            _ => return fault,
        };
        if self == Self::V03 {
            return fault;
        }
        fault.with_data(json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
        }]))
    }
}

/// The context of a run. A run that outlives its session has none, but clients require a text.
fn context(run: &RunSnapshot) -> &str {
    run.session_id
        .as_ref()
        .map_or("", |session| session.as_str())
}

/// The usage of a run, under the protocol's metadata key.
fn metadata(run: &RunSnapshot) -> Value {
    json!({"mantyx": {"tokens": run.tokens, "turns": run.turns, "model": run.model}})
}
