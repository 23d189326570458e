//! Sessions, one by one, listed, and as a conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::spec::{AgentSpec, Metadata, PromptMessage};
use crate::tools::Object;

/// Whether a session takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It does.
    Active,
    /// It was deleted and only answers reads.
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

/// `GET /agent-sessions/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSnapshot {
    /// Which session.
    pub id: SessionId,
    /// The spec's `name`.
    pub name: Option<String>,
    /// Whether it takes messages.
    pub status: SessionStatus,
    /// When it was created.
    pub created_at: String,
    /// When a message last arrived; at first the time of its creation.
    pub last_used_at: String,
    /// When it was deleted.
    pub ended_at: Option<String>,
    /// The default spec of its runs, secrets removed.
    pub agent_spec: AgentSpec,
    /// What was said, oldest first.
    #[serde(default)]
    pub messages: Vec<PromptMessage>,
    /// True when older messages were left out: the session's events have them. Missing when it is false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Client labels.
    #[serde(default)]
    pub metadata: Metadata,
}

/// `GET /agent-sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// How many match, when the request asked for it.
    pub total: Option<u64>,
    /// The page's size.
    pub limit: u32,
    /// How many were skipped.
    #[serde(default)]
    pub offset: u64,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
    /// The page.
    pub sessions: Vec<SessionListItem>,
}

/// One session of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionListItem {
    /// Which session.
    pub session_id: SessionId,
    /// When it was created.
    pub creation_date: String,
    /// When a message last arrived; at first the time of its creation.
    pub last_interaction_date: String,
    /// One line about it.
    pub summary: String,
    /// Client labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// Whether it takes messages.
    pub status: SessionStatus,
}

/// `GET /agent-sessions/{id}/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvents {
    /// Which session.
    pub session_id: SessionId,
    /// How many events the session has.
    pub total: u64,
    /// The page, oldest first.
    pub events: Vec<SessionEvent>,
    /// `beforeSeq` of the page before this one; `null` on the first one.
    pub next_before_seq: Option<u64>,
    /// True when older events were left out.
    pub truncated: bool,
}

/// One frame of a session's conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// 1-based place in the session.
    pub seq: u64,
    /// Who speaks.
    #[serde(rename = "type")]
    pub kind: SessionEventKind,
    /// What is said.
    pub text: String,
    /// Whatever else belongs to the frame, at its top level.
    #[serde(flatten)]
    pub rest: Object,
}

/// The type of a [`SessionEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEventKind {
    /// The person.
    UserMessage,
    /// The model.
    AssistantMessage,
    /// Anything else.
    #[serde(other)]
    Message,
}
