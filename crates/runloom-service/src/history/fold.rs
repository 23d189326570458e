//! The messages of one run, folded from its request and its log. Pure: the ids follow from the log alone, so that they
//! are the same live, replayed, in snapshots and in the history.

use std::collections::HashMap;
use std::sync::Arc;

use runloom_ports::clock::rfc3339;
use runloom_ports::store::Millis;
use runloom_protocol::event::{
    AssistantMessage, Event, LocalToolResultIn, RequestedCall, ToolResult,
};
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::limits::TOOL_RESULT_SHOWN_BYTES;
use runloom_protocol::resource::{
    CallKind, HistoryCall, HistoryFunction, HistoryMessage, HistoryMetadata, HistoryRole,
};
use runloom_protocol::spec::{PromptMessage, Role};
use runloom_protocol::tools::Object;
use serde_json::Value;

/// What every message id of this server starts with.
const PREFIX: &str = "msg_";

/// The ids that clients gave to the results of calls, by call.
pub(crate) type ToolMessageIds = Arc<HashMap<String, String>>;

/// The id of the message that begins with this event of a run.
pub(crate) fn message_id(run: &RunId, seq: u64) -> String {
    format!("{PREFIX}{}_{seq}", suffix(run))
}

/// The id of the reasoning that begins with this event of a run.
pub(crate) fn reasoning_id(run: &RunId, seq: u64) -> String {
    format!("rsn_{}_{seq}", suffix(run))
}

/// The id of a message of a run's request, for a client that gave none.
fn request_id(run: &RunId, index: usize) -> String {
    format!("{PREFIX}{}_u{index}", suffix(run))
}

/// The run whose log or request the message of this id is in, when the server made the id.
pub(crate) fn run_of_message(id: &str) -> Option<RunId> {
    let (suffix, _) = id.strip_prefix(PREFIX)?.rsplit_once('_')?;
    RunId::parse(&format!("{}{suffix}", RunId::PREFIX))
}

fn suffix(run: &RunId) -> &str {
    let id = run.as_str();
    id.strip_prefix(RunId::PREFIX).unwrap_or(id)
}

/// The request of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunRequest {
    pub(crate) run: RunId,
    pub(crate) created_at: Millis,
    pub(crate) messages: Vec<PromptMessage>,
    /// The client's ids of these messages; shorter when it gave none.
    pub(crate) message_ids: Vec<String>,
}

impl RunRequest {
    /// The messages of people and models, as the history has them.
    pub(crate) fn history(&self) -> Vec<HistoryMessage> {
        let created_at = rfc3339(self.created_at);
        let numbered = self.messages.iter().enumerate();
        let shown = numbered.filter_map(|(index, message)| {
            let role = match message.role {
                Role::System => return None,
                Role::User => HistoryRole::User,
                Role::Assistant => HistoryRole::Assistant,
            };
            let given = self.message_ids.get(index).cloned();
            Some(HistoryMessage {
                id: given.unwrap_or_else(|| request_id(&self.run, index)),
                role,
                content: Some(message.content.clone()),
                tool_calls: Vec::new(),
                tool_call_id: None,
                metadata: metadata(&self.run, created_at.clone(), Object::default()),
            })
        });
        shown.collect()
    }
}

/// A message and the event that completed it: 0 for messages of the request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub(crate) seq: u64,
    pub(crate) message: HistoryMessage,
}

/// The fold. Feed it every event of the log, in order.
#[derive(Debug)]
pub(crate) struct RunFold {
    run: RunId,
    tool_message_ids: ToolMessageIds,
    messages: Vec<Placed>,
    open: Option<OpenTurn>,
    complete_through: u64,
    asked: Vec<String>,
    approvals: Vec<ApprovalId>,
}

/// A turn of which something was shown and that is not complete.
#[derive(Debug)]
struct OpenTurn {
    id: String,
    text: String,
}

impl RunFold {
    pub(crate) fn new(request: &RunRequest, tool_message_ids: ToolMessageIds) -> Self {
        let own = request.history().into_iter();
        Self {
            run: request.run.clone(),
            tool_message_ids,
            messages: own.map(|message| Placed { seq: 0, message }).collect(),
            open: None,
            complete_through: 0,
            asked: Vec::new(),
            approvals: Vec::new(),
        }
    }

    /// The last event that no incomplete turn follows from: a stream that goes on after it shows every message whole.
    pub(crate) fn complete_through(&self) -> u64 {
        self.complete_through
    }

    /// Calls that wait for the client, in the model's order.
    pub(crate) fn asked(&self) -> &[String] {
        &self.asked
    }

    /// Approvals of the run and of the runs below it that the log does not show as decided, oldest first.
    pub(crate) fn approvals(&self) -> &[ApprovalId] {
        &self.approvals
    }

    /// The messages so far, oldest first.
    pub(crate) fn into_messages(self) -> Vec<Placed> {
        self.messages
    }

    /// Folds an event that was written at this time.
    pub(crate) fn apply(&mut self, seq: u64, at: Millis, event: Event) {
        match event {
            Event::AssistantDelta(delta) => {
                if delta.text.is_empty() {
                    return;
                }
                let run = &self.run;
                let open = self.open.get_or_insert_with(|| OpenTurn {
                    id: message_id(run, seq),
                    text: String::new(),
                });
                open.text.push_str(&delta.text);
                return;
            }
            Event::ThinkingDelta(_) => return,
            Event::AssistantMessage(message) => self.turn(seq, at, message),
            Event::TurnRestarted(_) => self.open = None,
            Event::ToolResult(result) => self.tool_result(seq, at, result),
            Event::LocalToolCall(call) => self.asked.push(call.tool_use_id),
            Event::LocalToolResultIn(result) => self.client_result(seq, at, result),
            Event::ApprovalRequested(asked) => self.approvals.push(asked.approval_id),
            Event::ApprovalDecided(decided) => {
                self.approvals.retain(|id| *id != decided.approval_id);
            }
            Event::Error(_) | Event::Cancelled(_) => self.broken_off(seq, at),
            Event::Started(_)
            | Event::ModelFallback(_)
            | Event::ContextCompacted(_)
            | Event::ToolCall(_)
            | Event::ToolFiles(_)
            | Event::LoopDetected(_)
            | Event::ToolBudgetExceeded(_)
            | Event::Subagent(_)
            | Event::SubAction(_)
            | Event::Result(_) => {}
        }
        self.complete_through = seq;
    }

    fn turn(&mut self, seq: u64, at: Millis, message: AssistantMessage) {
        let id = match self.open.take() {
            Some(open) => open.id,
            None => message_id(&self.run, seq),
        };
        let content = Some(message.text).filter(|text| !text.is_empty());
        if content.is_none() && message.tool_calls.is_empty() {
            return;
        }
        let tool_calls = message.tool_calls.into_iter().map(history_call).collect();
        let message = HistoryMessage {
            id,
            role: HistoryRole::Assistant,
            content,
            tool_calls,
            tool_call_id: None,
            metadata: metadata(&self.run, rfc3339(at), Object::default()),
        };
        self.messages.push(Placed { seq, message });
    }

    /// What an incomplete turn had said when its run ended.
    fn broken_off(&mut self, seq: u64, at: Millis) {
        if let Some(open) = self.open.take() {
            let message = HistoryMessage {
                id: open.id,
                role: HistoryRole::Assistant,
                content: Some(open.text),
                tool_calls: Vec::new(),
                tool_call_id: None,
                metadata: metadata(&self.run, rfc3339(at), Object::default()),
            };
            self.messages.push(Placed { seq, message });
        }
    }

    fn tool_result(&mut self, seq: u64, at: Millis, result: ToolResult) {
        let message = tool_result_message(&self.run, seq, at, result);
        self.messages.push(Placed { seq, message });
    }

    fn client_result(&mut self, seq: u64, at: Millis, result: LocalToolResultIn) {
        self.asked.retain(|call| *call != result.tool_use_id);
        let message = client_result_message(&self.run, &self.tool_message_ids, (seq, at), result);
        self.messages.push(Placed { seq, message });
    }
}

/// The message of a result that the server wrote. A result of the project tool has its whole text and its metadata.
pub(crate) fn tool_result_message(
    run: &RunId,
    seq: u64,
    at: Millis,
    result: ToolResult,
) -> HistoryMessage {
    let tool = match result.metadata {
        Some(Value::Object(tool)) => tool,
        _ => Object::default(),
    };
    let whole = tool
        .get("tool_agent_output")
        .and_then(|output| output.get("result"))
        .map(Value::to_string)
        // Shorter texts are not cut, and are shown exactly as the model read them.
        .filter(|whole| whole.len() > TOOL_RESULT_SHOWN_BYTES);
    HistoryMessage {
        id: message_id(run, seq),
        role: HistoryRole::Tool,
        content: Some(whole.unwrap_or(result.result)),
        tool_calls: Vec::new(),
        tool_call_id: Some(result.tool_use_id),
        metadata: metadata(run, rfc3339(at), tool),
    }
}

/// The message of a client's result, or of the timeout in its place, under the id that the client gave it.
pub(crate) fn client_result_message(
    run: &RunId,
    ids: &HashMap<String, String>,
    (seq, at): (u64, Millis),
    result: LocalToolResultIn,
) -> HistoryMessage {
    let given = ids.get(&result.tool_use_id).cloned();
    HistoryMessage {
        id: given.unwrap_or_else(|| message_id(run, seq)),
        role: HistoryRole::Tool,
        content: result.output.or(result.error).or(Some(String::new())),
        tool_calls: Vec::new(),
        tool_call_id: Some(result.tool_use_id),
        metadata: metadata(run, rfc3339(at), Object::default()),
    }
}

/// A call as a message shows it.
pub(crate) fn history_call(call: RequestedCall) -> HistoryCall {
    HistoryCall {
        id: call.id,
        kind: CallKind::Function,
        function: HistoryFunction {
            name: call.name,
            arguments: call.input.to_string(),
        },
    }
}

fn metadata(run: &RunId, created_at: String, tool: Object) -> HistoryMetadata {
    HistoryMetadata {
        run_id: run.clone(),
        created_at,
        tool,
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
