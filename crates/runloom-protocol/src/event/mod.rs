//! The events of a run's log, and the one serialisation that is stored and streamed.
//!
//! A new event is a variant of [`Event`] and of [`EventKind`], with its payload below; the compiler then asks for its facts.

mod approval;
mod frame;
mod subagent;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{ErrorClass, ModelInfo, RunCancelled, RunError, RunResult};
use crate::read::keywords;
use crate::tools::Object;

pub use approval::{ApprovalDecided, ApprovalRequested, SubActionEvent, SubActionPhase};
pub use frame::{FrameError, frame_json, frame_kind, parse_frame, split_frames};
pub use subagent::{Subagent, SubagentPhase};

/// One entry of a run's log. A variant's payload stands under `data` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// A worker has begun the run; always `seq` 1.
    Started(Started),
    /// A piece of the answer.
    AssistantDelta(TextDelta),
    /// A piece of the model's thinking.
    ThinkingDelta(TextDelta),
    /// A turn is complete.
    AssistantMessage(AssistantMessage),
    /// The turn is called again; viewers discard the deltas of the broken attempt.
    TurnRestarted(TurnRestarted),
    /// The model is out of service; another takes over for the rest of the run.
    ModelFallback(ModelFallback),
    /// A server-resolved tool is about to be called.
    ToolCall(ToolCall),
    /// A server-resolved tool, or a guard in its place, has returned a result.
    ToolResult(ToolResult),
    /// A tool's files; stands before its `tool_result`.
    ToolFiles(ToolFiles),
    /// The client is asked to execute a tool.
    LocalToolCall(LocalToolCall),
    /// The client's result, or the timeout in its place.
    LocalToolResultIn(LocalToolResultIn),
    /// The model repeats itself.
    LoopDetected(LoopDetected),
    /// A call past its tool's budget was not executed.
    ToolBudgetExceeded(ToolBudgetExceeded),
    /// A run below this one has started, waits or has ended.
    Subagent(Subagent),
    /// A call waits for a person's decision.
    ApprovalRequested(ApprovalRequested),
    /// A person, or the timeout, has decided about a call.
    ApprovalDecided(ApprovalDecided),
    /// A part of a batched call begins, ends or is not executed.
    SubAction(SubActionEvent),
    /// Terminal: success.
    Result(RunResult),
    /// Terminal: failure.
    Error(RunError),
    /// Terminal: stopped on request.
    Cancelled(RunCancelled),
}

impl Event {
    /// The kind of the event.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Started(_) => EventKind::Started,
            Self::AssistantDelta(_) => EventKind::AssistantDelta,
            Self::ThinkingDelta(_) => EventKind::ThinkingDelta,
            Self::AssistantMessage(_) => EventKind::AssistantMessage,
            Self::TurnRestarted(_) => EventKind::TurnRestarted,
            Self::ModelFallback(_) => EventKind::ModelFallback,
            Self::ToolCall(_) => EventKind::ToolCall,
            Self::ToolResult(_) => EventKind::ToolResult,
            Self::ToolFiles(_) => EventKind::ToolFiles,
            Self::LocalToolCall(_) => EventKind::LocalToolCall,
            Self::LocalToolResultIn(_) => EventKind::LocalToolResultIn,
            Self::LoopDetected(_) => EventKind::LoopDetected,
            Self::ToolBudgetExceeded(_) => EventKind::ToolBudgetExceeded,
            Self::Subagent(_) => EventKind::Subagent,
            Self::ApprovalRequested(_) => EventKind::ApprovalRequested,
            Self::ApprovalDecided(_) => EventKind::ApprovalDecided,
            Self::SubAction(_) => EventKind::SubAction,
            Self::Result(_) => EventKind::Result,
            Self::Error(_) => EventKind::Error,
            Self::Cancelled(_) => EventKind::Cancelled,
        }
    }

    /// The end of the run, when the event is one.
    #[must_use]
    pub fn terminal(&self) -> Option<Terminal<'_>> {
        if let Self::Result(result) = self {
            Some(Terminal::Result(result))
        } else if let Self::Error(error) = self {
            Some(Terminal::Error(error))
        } else if let Self::Cancelled(receipt) = self {
            Some(Terminal::Cancelled(receipt))
        } else {
            None
        }
    }

    /// See [`EventKind::is_terminal`].
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.kind().is_terminal()
    }

    /// See [`EventKind::is_progress`].
    #[must_use]
    pub fn is_progress(&self) -> bool {
        self.kind().is_progress()
    }

    /// See [`EventKind::audience`].
    #[must_use]
    pub fn audience(&self) -> Audience {
        self.kind().audience()
    }
}

keywords! {
    /// The kinds of [`Event`], by the word on the `event:` line and under `type`.
    pub enum EventKind {
        /// See [`Event::Started`].
        Started = "started",
        /// See [`Event::AssistantDelta`].
        AssistantDelta = "assistant_delta",
        /// See [`Event::ThinkingDelta`].
        ThinkingDelta = "thinking_delta",
        /// See [`Event::AssistantMessage`].
        AssistantMessage = "assistant_message",
        /// See [`Event::TurnRestarted`].
        TurnRestarted = "turn_restarted",
        /// See [`Event::ModelFallback`].
        ModelFallback = "model_fallback",
        /// See [`Event::ToolCall`].
        ToolCall = "tool_call",
        /// See [`Event::ToolResult`].
        ToolResult = "tool_result",
        /// See [`Event::ToolFiles`].
        ToolFiles = "tool_files",
        /// See [`Event::LocalToolCall`].
        LocalToolCall = "local_tool_call",
        /// See [`Event::LocalToolResultIn`].
        LocalToolResultIn = "local_tool_result_in",
        /// See [`Event::LoopDetected`].
        LoopDetected = "loop_detected",
        /// See [`Event::ToolBudgetExceeded`].
        ToolBudgetExceeded = "tool_budget_exceeded",
        /// See [`Event::Subagent`].
        Subagent = "subagent",
        /// See [`Event::ApprovalRequested`].
        ApprovalRequested = "approval_requested",
        /// See [`Event::ApprovalDecided`].
        ApprovalDecided = "approval_decided",
        /// See [`Event::SubAction`].
        SubAction = "sub_action",
        /// See [`Event::Result`].
        Result = "result",
        /// See [`Event::Error`].
        Error = "error",
        /// See [`Event::Cancelled`].
        Cancelled = "cancelled",
    }
}

impl EventKind {
    /// Whether the event ends its run. A run has one such event, and it is the last.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Result | Self::Error | Self::Cancelled)
    }

    /// Whether a run that writes the event has made progress. Events that a retry writes again do not count.
    #[must_use]
    pub fn is_progress(self) -> bool {
        match self {
            Self::Started
            | Self::AssistantDelta
            | Self::ThinkingDelta
            | Self::TurnRestarted
            | Self::ToolCall
            | Self::SubAction => false,
            Self::AssistantMessage
            | Self::ModelFallback
            | Self::ToolResult
            | Self::ToolFiles
            | Self::LocalToolCall
            | Self::LocalToolResultIn
            | Self::LoopDetected
            | Self::ToolBudgetExceeded
            | Self::Subagent
            | Self::ApprovalRequested
            | Self::ApprovalDecided
            | Self::Result
            | Self::Error
            | Self::Cancelled => true,
        }
    }

    /// Who may learn of the event. The tools and models of a published agent are not shown to its callers.
    #[must_use]
    pub fn audience(self) -> Audience {
        match self {
            Self::Started
            | Self::AssistantDelta
            | Self::ThinkingDelta
            | Self::AssistantMessage
            | Self::TurnRestarted
            | Self::Result
            | Self::Error
            | Self::Cancelled => Audience::Callers,
            Self::ModelFallback
            | Self::ToolCall
            | Self::ToolResult
            | Self::ToolFiles
            | Self::LocalToolCall
            | Self::LocalToolResultIn
            | Self::LoopDetected
            | Self::ToolBudgetExceeded
            | Self::Subagent
            | Self::ApprovalRequested
            | Self::ApprovalDecided
            | Self::SubAction => Audience::Workspace,
        }
    }
}

/// Who may learn of an event. Clients of the workspace see every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Clients of the workspace alone; callers of a published agent only learn that it works.
    Workspace,
    /// Callers of a published agent, too.
    Callers,
}

/// The payload of a terminal event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Terminal<'e> {
    /// Success.
    Result(&'e RunResult),
    /// Failure.
    Error(&'e RunError),
    /// Stopped on request.
    Cancelled(&'e RunCancelled),
}

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sequenced {
    /// 1-based, gapless.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Payload of `started`: empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {}

/// Payload of `assistant_delta` and `thinking_delta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDelta {
    /// The piece of text.
    pub text: String,
}

/// Payload of `assistant_message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// The whole text of the turn.
    pub text: String,
    /// 0-based.
    pub turn: u32,
    /// Canonical, see [`crate::outcome::finish_reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The calls the model asked for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCall>,
    /// Catalog id of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// One entry of `assistant_message.toolCalls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// `tu_…`, unique in the run.
    pub id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments.
    pub input: Value,
}

/// Payload of `turn_restarted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRestarted {
    /// 0-based: the `turn` of the message that will complete it.
    pub turn: u32,
    /// Why it is called again.
    pub reason: String,
}

/// Payload of `model_fallback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFallback {
    /// The error of the first model.
    pub error_class: ErrorClass,
    /// The model from now on.
    pub model: ModelInfo,
    /// Catalog id of the model that failed.
    pub primary_model_id: String,
    /// Catalog id of the model that takes over.
    pub fallback_model_id: String,
}

/// Payload of `tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Id of the call.
    pub tool_use_id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments.
    pub input: Value,
}

/// Payload of `tool_result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Id of the call.
    pub tool_use_id: String,
    /// Model-facing name.
    pub name: String,
    /// False when the tool failed or was not executed.
    pub ok: bool,
    /// Output, cut for display.
    pub result: String,
    /// One line of the output.
    pub summary: String,
}

/// Payload of `tool_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFiles {
    /// Model-facing name of the tool.
    pub name: String,
    /// Files of the result.
    pub files: Vec<FileInfo>,
}

/// One file of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// File name.
    pub filename: String,
    /// Media type.
    pub mime_type: String,
    /// Decoded size.
    pub size_bytes: u64,
}

/// Payload of `local_tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalToolCall {
    /// Id of the call.
    pub tool_use_id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments, already checked against the tool's schema.
    pub args: Value,
    /// `local`, `a2a_local` or `mcp_local`.
    pub kind: String,
    /// `a2a_local`: the card, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<Object>,
    /// `mcp_local`: the server's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<String>,
    /// `mcp_local`: the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_tool_name: Option<String>,
    /// `mcp_local`: as given in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server_info: Option<Object>,
    /// `mcp_local`: as given in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// Payload of `local_tool_result_in`: exactly one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalToolResultIn {
    /// Id of the call.
    pub tool_use_id: String,
    /// The tool's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The error instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Payload of `loop_detected`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopDetected {
    /// Equal tool turns in a row.
    pub consecutive_count: u32,
    /// True when the run now finishes without tools.
    pub hard_cutoff: bool,
    /// Names of the repeated tools.
    pub tools: Vec<String>,
}

/// Payload of `tool_budget_exceeded`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolBudgetExceeded {
    /// Model-facing name.
    pub tool: String,
    /// The cap.
    pub max_calls: u32,
    /// 1-based, greater than `max_calls`.
    pub call_index: u32,
}
