//! The events of a run's log, and the one serialisation that is stored and streamed.
//!
//! A new event is a variant of [`Event`] and of [`EventKind`], with its payload below; the compiler then asks for its
//! facts.

mod approval;
mod compaction;
mod frame;
mod subagent;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{ErrorClass, ModelInfo, RunCancelled, RunError, RunResult, Tokens};
use crate::read::keywords;
use crate::tools::Object;

pub use approval::{ApprovalDecided, ApprovalRequested, SubActionEvent, SubActionPhase};
pub use compaction::ContextCompacted;
pub use frame::{FrameError, frame_json, frame_kind, parse_frame, split_frames};
pub use subagent::{Subagent, SubagentPhase};

/// One entry of a run's log. A variant's payload stands under `data` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "EventPayload"))]
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
    /// Older turns of the conversation were replaced by a summary, or dropped.
    ContextCompacted(ContextCompacted),
    /// A server tool is about to be called.
    ToolCall(ToolCall),
    /// A server tool has returned a result, or the call was refused.
    ToolResult(ToolResult),
    /// The files of a tool result; written before its `tool_result`.
    ToolFiles(ToolFiles),
    /// The client must execute a tool and post the result.
    LocalToolCall(LocalToolCall),
    /// The client's result arrived, or the call timed out.
    LocalToolResultIn(LocalToolResultIn),
    /// The model repeats the same tool calls.
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
            Self::ContextCompacted(_) => EventKind::ContextCompacted,
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
        /// See [`Event::ContextCompacted`].
        ContextCompacted = "context_compacted",
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
            | Self::ContextCompacted
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
            | Self::ContextCompacted
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

/// An event with its position in the log. The payload is under `data`; its fields also stand at the top level.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Event", extend("additionalProperties" = true)))]
pub struct Sequenced {
    /// The position in the log, from 1, without gaps.
    pub seq: u64,
    /// When the event was written, in milliseconds since 1970. Absent in logs of older servers.
    #[serde(default)]
    pub at: Option<u64>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Payload of `started`: empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Started {}

/// Payload of `assistant_delta` and `thinking_delta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextDelta {
    /// The piece of text.
    pub text: String,
}

/// Payload of `assistant_message`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// The whole text of the turn.
    pub text: String,
    /// The turn, from 0.
    pub turn: u32,
    /// Why the turn ended: `end_turn`, `tool_use`, `max_tokens`, `refusal`, `malformed_function_call`,
    /// `stop_sequence` or `content_filter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The tool calls that the model requested, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCall>,
    /// The catalog id of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the turn used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What the turn cost in US dollars. Absent when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Time from the first call of the turn to the end of the last one, with the pauses between retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Time from the start of the completed call to its first text, thinking or tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_first_token_ms: Option<u64>,
    /// Model calls of the turn, with the failed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// A tool call that the model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestedCall {
    /// The id of the call, `tu_…`, unique in the run.
    pub id: String,
    /// The model-facing name of the tool.
    pub name: String,
    /// The arguments.
    pub input: Value,
}

/// Payload of `turn_restarted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnRestarted {
    /// The turn that is called again, from 0.
    pub turn: u32,
    /// Why the turn is called again.
    pub reason: String,
}

/// Payload of `model_fallback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelFallback {
    /// The error of the first model.
    pub error_class: ErrorClass,
    /// The model from now on.
    pub model: ModelInfo,
    /// The catalog id of the model that failed.
    pub primary_model_id: String,
    /// The catalog id of the model that takes over.
    pub fallback_model_id: String,
}

/// Payload of `tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The id of the call.
    pub tool_use_id: String,
    /// The model-facing name of the tool.
    pub name: String,
    /// The arguments.
    pub input: Value,
}

/// Payload of `tool_result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// The model-facing name of the tool.
    pub name: String,
    /// False when the tool failed or was not executed.
    pub ok: bool,
    /// The output, shortened for display.
    pub result: String,
    /// The output in one line.
    pub summary: String,
    /// Of the project tool: `tool_agent_output` and, where the action has a template, `ui_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// How long the tool took. Absent when it was not executed, and for the result of a run below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Payload of `tool_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolFiles {
    /// The model-facing name of the tool.
    pub name: String,
    /// The files of the result.
    pub files: Vec<FileInfo>,
}

/// A file of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// The file name.
    pub filename: String,
    /// The media type.
    pub mime_type: String,
    /// The decoded size in bytes.
    pub size_bytes: u64,
}

/// Payload of `local_tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LocalToolCall {
    /// The id of the call.
    pub tool_use_id: String,
    /// The model-facing name of the tool.
    pub name: String,
    /// The arguments, already checked against the tool's schema.
    pub args: Value,
    /// The kind of the tool: `local`, `a2a_local` or `mcp_local`.
    pub kind: String,
    /// The agent card of an `a2a_local` tool, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<Object>,
    /// The label of the MCP server of an `mcp_local` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<String>,
    /// The name of an `mcp_local` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_tool_name: Option<String>,
    /// The `serverInfo` of an `mcp_local` tool, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_server_info: Option<Object>,
    /// The `annotations` of an `mcp_local` tool, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// Payload of `local_tool_result_in`: exactly one of `output` and `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LocalToolResultIn {
    /// The id of the call.
    pub tool_use_id: String,
    /// The output of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The error of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Payload of `loop_detected`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoopDetected {
    /// Equal tool turns in a row.
    pub consecutive_count: u32,
    /// True when the run now ends with a finalise turn.
    pub hard_cutoff: bool,
    /// The names of the repeated tools.
    pub tools: Vec<String>,
}

/// Payload of `tool_budget_exceeded`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolBudgetExceeded {
    /// The model-facing name of the tool.
    pub tool: String,
    /// The budget of the tool.
    pub max_calls: u32,
    /// The number of the call, from 1; greater than `maxCalls`.
    pub call_index: u32,
}
