//! The events of a run's log, and the one serialisation that is stored and streamed.

mod frame;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{ErrorClass, ModelInfo, RunCancelled, RunError, RunResult};
use crate::tools::Object;

pub use frame::{FrameError, frame_json, kind_of_frame, parse_frame, split_frames};

/// One entry of a run's log. The variants' payloads are the `data` of the protocol's table.
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
    /// A server-resolved tool, or a guard in its place, has answered.
    ToolResult(ToolResult),
    /// A tool's files; stands before its `tool_result`.
    ToolFiles(ToolFiles),
    /// The client is asked to execute a tool.
    LocalToolCall(LocalToolCall),
    /// The client's answer, or the timeout in its place.
    LocalToolResultIn(LocalToolResultIn),
    /// The model repeats itself.
    LoopDetected(LoopDetected),
    /// A call past its tool's budget was not executed.
    ToolBudgetExceeded(ToolBudgetExceeded),
    /// Terminal: success.
    Result(RunResult),
    /// Terminal: failure.
    Error(RunError),
    /// Terminal: stopped on request.
    Cancelled(RunCancelled),
}

/// Payload of `started`: empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {}

/// Payload of `assistant_delta` and `thinking_delta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDelta {
    /// The piece.
    pub text: String,
}

/// Payload of `assistant_message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// The whole text of the turn.
    pub text: String,
    /// Which turn, 0-based.
    pub turn: u32,
    /// Canonical, see [`crate::outcome::finish_reason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The calls the model asked for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCall>,
    /// Catalog id of the model that spoke.
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
    /// Which turn, 0-based: the `turn` of the message that will complete it.
    pub turn: u32,
    /// Why.
    pub reason: String,
}

/// Payload of `model_fallback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFallback {
    /// What the first model failed with.
    pub error_class: ErrorClass,
    /// Who speaks from now on.
    pub model: ModelInfo,
    /// Catalog id of the model that failed.
    pub primary_model_id: String,
    /// Catalog id of the one that takes over.
    pub fallback_model_id: String,
}

/// Payload of `tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Which call.
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
    /// Which call.
    pub tool_use_id: String,
    /// Model-facing name.
    pub name: String,
    /// False when the tool failed or was not executed.
    pub ok: bool,
    /// Output, cut for display.
    pub result: String,
    /// One line of it.
    pub summary: String,
}

/// Payload of `tool_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFiles {
    /// Model-facing name of the tool.
    pub name: String,
    /// What it brought beside its text.
    pub files: Vec<FileInfo>,
}

/// One file of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// Its name.
    pub filename: String,
    /// What it is.
    pub mime_type: String,
    /// Its size, decoded.
    pub size_bytes: u64,
}

/// Payload of `local_tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalToolCall {
    /// Which call.
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
    /// Which call.
    pub tool_use_id: String,
    /// The tool's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why there is none.
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

impl Event {
    /// The word on the `event:` line and under `type`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::AssistantDelta(_) => "assistant_delta",
            Self::ThinkingDelta(_) => "thinking_delta",
            Self::AssistantMessage(_) => "assistant_message",
            Self::TurnRestarted(_) => "turn_restarted",
            Self::ModelFallback(_) => "model_fallback",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::ToolFiles(_) => "tool_files",
            Self::LocalToolCall(_) => "local_tool_call",
            Self::LocalToolResultIn(_) => "local_tool_result_in",
            Self::LoopDetected(_) => "loop_detected",
            Self::ToolBudgetExceeded(_) => "tool_budget_exceeded",
            Self::Result(_) => "result",
            Self::Error(_) => "error",
            Self::Cancelled(_) => "cancelled",
        }
    }

    /// True for the one event that ends a run.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Error(_) | Self::Cancelled(_))
    }
}

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sequenced {
    /// 1-based, gapless.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
