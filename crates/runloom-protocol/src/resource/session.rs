//! Sessions, one by one, listed, and as a conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::spec::{AgentSpec, Metadata, PromptMessage};
use crate::tools::Object;

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It accepts messages.
    Active,
    /// It was ended; it can only be read.
    Ended,
}

impl SessionStatus {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ended => "ended",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Active, Self::Ended]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A session with its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionSnapshot {
    /// The id of the session.
    pub id: SessionId,
    /// The `name` of the spec.
    pub name: Option<String>,
    /// The status of the session.
    pub status: SessionStatus,
    /// When the session was created.
    pub created_at: String,
    /// When the last message arrived; before the first message, when the session was created.
    pub last_used_at: String,
    /// When the session was ended; `null` while it is active.
    pub ended_at: Option<String>,
    /// The default spec of the session's runs, without secrets.
    pub agent_spec: AgentSpec,
    /// The messages, oldest first.
    #[serde(default)]
    pub messages: Vec<PromptMessage>,
    /// True when older messages were left out, of more than 10,000 messages or 8 MiB; the events of the session contain
    /// all of them. Absent when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The client's labels.
    #[serde(default)]
    pub metadata: Metadata,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The number of matches; `null` unless `includeTotal` was set.
    pub total: Option<u64>,
    /// The size of the page.
    pub limit: u32,
    /// The number of skipped sessions.
    #[serde(default)]
    pub offset: u64,
    /// The `cursor` of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// The sessions of this page.
    pub sessions: Vec<SessionListItem>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionListItem {
    /// The id of the session.
    pub session_id: SessionId,
    /// When the session was created.
    pub creation_date: String,
    /// When the last message arrived; before the first message, when the session was created.
    pub last_interaction_date: String,
    /// One line about the session.
    pub summary: String,
    /// The client's labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// The status of the session.
    pub status: SessionStatus,
}

/// A part of the conversation of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionEvents {
    /// The id of the session.
    pub session_id: SessionId,
    /// The number of events of the session.
    pub total: u64,
    /// The events of this page, oldest first.
    pub events: Vec<SessionEvent>,
    /// The `beforeSeq` of the page before this one; `null` on the first page.
    pub next_before_seq: Option<u64>,
    /// True when older events were left out.
    pub truncated: bool,
}

/// One message of the conversation of a session. Further fields stand at the top level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionEvent {
    /// The position in the session, from 1.
    pub seq: u64,
    /// The author of the message.
    #[serde(rename = "type")]
    pub kind: SessionEventKind,
    /// The text of the message.
    pub text: String,
    /// Further fields, for example `attachments`.
    #[serde(flatten)]
    pub rest: Object,
}

/// The author of a message of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionEventKind {
    /// The user.
    UserMessage,
    /// The model.
    AssistantMessage,
    /// Another author, for example the system prompt.
    #[serde(other)]
    Message,
}
