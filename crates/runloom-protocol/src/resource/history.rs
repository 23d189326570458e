//! The history of a session: every message with a stable id, as AG-UI 1.0 writes messages.

use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionId};
use crate::tools::Object;

/// `GET /agent-sessions/{id}/history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionHistory {
    /// Which session.
    pub session_id: SessionId,
    /// The AG-UI thread that the session is.
    pub thread_id: Option<String>,
    /// The page, oldest first.
    pub messages: Vec<HistoryMessage>,
    /// `before` of the page with older messages; `null` on the last one.
    pub next_before: Option<String>,
}

/// One message of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryMessage {
    /// The same live, replayed, in snapshots and in the history.
    pub id: String,
    /// Who speaks.
    pub role: HistoryRole,
    /// The text; left out of a turn that only called tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The calls of a turn, in the model's order; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<HistoryCall>,
    /// The call that a tool message answers; left out of other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Where it comes from.
    pub metadata: HistoryMetadata,
}

/// Who speaks in a [`HistoryMessage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HistoryRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One call of an assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryCall {
    /// `tu_…`.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: CallKind,
    /// What is called.
    pub function: HistoryFunction,
}

/// The type of a [`HistoryCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// The only one.
    Function,
}

/// The tool of a call, and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryFunction {
    /// Model-facing name.
    pub name: String,
    /// The arguments as a JSON text.
    pub arguments: String,
}

/// Where a message comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryMetadata {
    /// The run that it belongs to.
    pub run_id: RunId,
    /// When it was complete, RFC 3339.
    pub created_at: String,
    /// The tool metadata of a result, where its tool has any.
    #[serde(flatten)]
    pub tool: Object,
}
