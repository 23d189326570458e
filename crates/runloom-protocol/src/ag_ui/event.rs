//! The events of AG-UI that this server sends. No key is outside of the schema of AG-UI 1.0, and none is `null`
//! outside of `metadata` and values that are data.

use serde::Serialize;
use serde_json::Value;

use crate::id::{RunId, SessionId};
use crate::resource::{HistoryMessage, HistoryMetadata};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub enum AgUiEvent {
    /// Always the first.
    RunStarted {
        /// The client's.
        thread_id: String,
        /// The client's.
        run_id: String,
        /// The client's, when it gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
        /// `1.0` for a client that sent a version.
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol_version: Option<&'static str>,
        /// What this server calls them.
        metadata: RunStartedMetadata,
    },
    /// Every message of the thread.
    MessagesSnapshot {
        /// Oldest first.
        messages: Vec<SnapshotMessage>,
    },
    /// The model begins to speak.
    TextMessageStart {
        /// Which message.
        message_id: String,
        /// Always `assistant`.
        role: &'static str,
    },
    /// A piece of text, never empty.
    TextMessageContent {
        /// Which message.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// The message is whole.
    TextMessageEnd {
        /// Which message.
        message_id: String,
    },
    /// The model begins to think.
    ReasoningStart {
        /// Which reasoning.
        message_id: String,
    },
    /// The text of its thinking begins.
    ReasoningMessageStart {
        /// Which reasoning.
        message_id: String,
        /// Always `reasoning`.
        role: &'static str,
    },
    /// A piece of its thinking, never empty.
    ReasoningMessageContent {
        /// Which reasoning.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// The text of its thinking is whole.
    ReasoningMessageEnd {
        /// Which reasoning.
        message_id: String,
    },
    /// The model has thought.
    ReasoningEnd {
        /// Which reasoning.
        message_id: String,
    },
    /// The model calls a tool.
    ToolCallStart {
        /// Which call.
        tool_call_id: String,
        /// Model-facing name.
        tool_call_name: String,
        /// The message of the turn.
        parent_message_id: String,
    },
    /// The arguments, whole.
    ToolCallArgs {
        /// Which call.
        tool_call_id: String,
        /// A JSON text.
        delta: String,
    },
    /// The call is whole.
    ToolCallEnd {
        /// Which call.
        tool_call_id: String,
    },
    /// The result of a call.
    ToolCallResult {
        /// The tool message.
        message_id: String,
        /// Which call.
        tool_call_id: String,
        /// Always `tool`.
        role: &'static str,
        /// The text.
        content: String,
        /// Where it comes from, with the tool's metadata.
        metadata: HistoryMetadata,
    },
    /// An event of the log that AG-UI has no event for.
    Custom {
        /// `runloom.` and its type.
        name: String,
        /// Its payload.
        value: Value,
    },
    /// Nothing follows in this stream.
    RunFinished {
        /// The client's.
        thread_id: String,
        /// The client's.
        run_id: String,
        /// How it ended. Clients before 1.0 know `interrupt` only.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// What was used; nothing while the run goes on.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// It failed; nothing follows.
    RunError {
        /// What happened, for people.
        message: String,
        /// What happened, for programs.
        code: String,
        /// What was used.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
}

/// What this server calls a thread and its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunStartedMetadata {
    /// The one key.
    pub runloom: RunloomRun,
}

/// The run and the session behind an AG-UI run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunloomRun {
    /// The run that is followed last; `null` when nothing is run.
    pub run_id: Option<RunId>,
    /// The session that the thread is.
    pub session_id: SessionId,
}

/// A message of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SnapshotMessage {
    /// A message of the history.
    Stored(HistoryMessage),
    /// A `system` or `developer` message of the request, as the client sent it.
    Sent(Value),
}

/// How an AG-UI run ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Outcome {
    /// With an answer, or waiting for the client's tools.
    Success {
        /// Calls that wait for the client, in the model's order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    /// Waiting for decisions about tool calls.
    Interrupt {
        /// Every open approval, oldest first.
        interrupts: Vec<Interrupt>,
    },
    /// Stopped on request.
    Cancelled,
}

/// A tool call that waits for the decision of a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// The approval, `apr_…`.
    pub id: String,
    /// Always `tool_call`.
    pub reason: &'static str,
    /// The call that waits.
    pub tool_call_id: String,
    /// What is asked, for people.
    pub message: String,
    /// When the call is denied, unless it is decided before.
    pub expires_at: String,
    /// JSON Schema of `payload` in the answer.
    pub response_schema: Value,
}

/// The tokens of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Whose model.
    pub provider: String,
    /// Catalog id of the model.
    pub model: String,
    /// All input.
    pub input_tokens: u64,
    /// All output.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// The part of the output that was thinking.
    pub reasoning_tokens: u64,
    /// The part of the input that was read from a cache.
    pub cached_input_tokens: u64,
}
