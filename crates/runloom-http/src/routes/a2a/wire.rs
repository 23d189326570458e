//! Both generations of the protocol over one model: what is read of a request, and how a run is shown.
//!
//! 0.3 tells its objects apart by `kind`, 1.0 by the field that they stand in; 1.0 writes its words as protobuf does. Requests
//! are read leniently: clients mix the generations.

use runloom_protocol::resource::{RunSnapshot, RunStatus};
use serde_json::{Map, Value, json};

use crate::follow::failure;
use crate::rpc::{Fault, INVALID_PARAMS};

/// No such task for this caller.
pub(super) const TASK_NOT_FOUND: i64 = -32001;
/// It has ended.
pub(super) const TASK_NOT_CANCELABLE: i64 = -32002;
/// Nobody is called back.
pub(super) const PUSH_NOT_SUPPORTED: i64 = -32003;
/// Not here.
pub(super) const UNSUPPORTED: i64 = -32004;
/// A part that no model is shown.
pub(super) const CONTENT_TYPE: i64 = -32005;
/// There is only one card.
pub(super) const NO_EXTENDED_CARD: i64 = -32007;
/// A generation that nobody here speaks.
pub(super) const VERSION_NOT_SUPPORTED: i64 = -32009;

/// The artifact that an answer grows in.
const ANSWER: &str = "answer";

/// Which generation of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// 0.2 and 0.3.
    V03,
    /// 1.0.
    V10,
}

/// What a request asks for.
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

/// A method of either generation.
pub(super) fn method(name: &str) -> Option<(Generation, Method)> {
    Some(match name {
        "message/send" => (Generation::V03, Method::Send),
        "message/stream" => (Generation::V03, Method::Stream),
        "tasks/get" => (Generation::V03, Method::Get),
        "tasks/cancel" => (Generation::V03, Method::Cancel),
        "tasks/resubscribe" => (Generation::V03, Method::Subscribe),
        "tasks/list" => (Generation::V03, Method::List),
        "agent/getAuthenticatedExtendedCard" => (Generation::V03, Method::ExtendedCard),
        "SendMessage" => (Generation::V10, Method::Send),
        "SendStreamingMessage" => (Generation::V10, Method::Stream),
        "GetTask" => (Generation::V10, Method::Get),
        "CancelTask" => (Generation::V10, Method::Cancel),
        "SubscribeToTask" => (Generation::V10, Method::Subscribe),
        "ListTasks" => (Generation::V10, Method::List),
        "GetExtendedAgentCard" => (Generation::V10, Method::ExtendedCard),
        name if name.starts_with("tasks/pushNotificationConfig/") => {
            (Generation::V03, Method::Push)
        }
        name if name.ends_with("TaskPushNotificationConfig")
            || name.ends_with("TaskPushNotificationConfigs") =>
        {
            (Generation::V10, Method::Push)
        }
        _ => return None,
    })
}

/// Whether a version in `A2A-Version` is spoken here; none is 0.3.
pub(super) fn is_spoken(version: &str) -> bool {
    let version = version.trim();
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    match (major, minor) {
        (Some("0"), Some(minor)) => matches!(minor, "2" | "3"),
        (Some("1"), _) => true,
        _ => version.is_empty(),
    }
}

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) text: String,
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    /// The sender does not wait for the end.
    pub(super) at_once: bool,
}

/// Reads the parameters of a send.
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
    let switch = |name: &str| configuration?.get(name)?.as_bool();
    Ok(Incoming {
        text,
        context: field("contextId")?,
        task: field("taskId")?,
        at_once: switch("blocking") == Some(false) || switch("returnImmediately") == Some(true),
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

/// The id in the parameters of a method about a task.
pub(super) fn task_id(params: &Map<String, Value>) -> Result<&str, Fault> {
    let id = params.get("id").and_then(Value::as_str);
    id.ok_or_else(|| Fault::new(INVALID_PARAMS, "`id` must be the id of a task."))
}

impl Generation {
    /// The word for where a run stands.
    fn state(self, status: RunStatus) -> &'static str {
        match (self, status) {
            (Self::V03, RunStatus::Queued) => "submitted",
            (Self::V03, RunStatus::Running | RunStatus::WaitingTool) => "working",
            (Self::V03, RunStatus::Succeeded) => "completed",
            (Self::V03, RunStatus::Failed) => "failed",
            (Self::V03, RunStatus::Cancelled) => "canceled",
            (Self::V10, RunStatus::Queued) => "TASK_STATE_SUBMITTED",
            (Self::V10, RunStatus::Running | RunStatus::WaitingTool) => "TASK_STATE_WORKING",
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

    /// Something that the agent says.
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

    /// The answer of a run that succeeded, as a message.
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

    /// Where a run stands, as an event.
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

    /// A piece of the answer, as an event: behind the pieces before it, or in their place.
    pub(super) fn piece(self, run: &RunSnapshot, text: &str, append: bool, last: bool) -> Value {
        let mut update = json!({
            "taskId": run.id, "contextId": context(run), "artifact": self.artifact(text), "append": append, "lastChunk": last,
        });
        if self == Self::V03 {
            update["kind"] = json!("artifact-update");
        }
        update
    }

    /// A result under the name that 1.0 tells it apart by.
    pub(super) fn named(self, name: &str, value: Value) -> Value {
        match self {
            Self::V03 => value,
            Self::V10 => json!({name: value}),
        }
    }

    /// The fault as this generation tells it: 1.0 wants a reason for programs.
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

/// The context of a run; a run that is kept longer than its session has none, but clients want a text.
fn context(run: &RunSnapshot) -> &str {
    run.session_id
        .as_ref()
        .map_or("", |session| session.as_str())
}

/// What a run used, under the protocol's own name.
fn metadata(run: &RunSnapshot) -> Value {
    json!({"mantyx": {"tokens": run.tokens, "turns": run.turns, "model": run.model}})
}
