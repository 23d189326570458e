//! What people thought of runs' answers, as it is shown.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, FeedbackId, RunId, SessionId};
use crate::spec::Verdict;

/// What feedback is about. There is one kind today.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A run.
    #[default]
    AgentRun,
}

/// Feedback is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackReceipt {
    /// Its id; the same for every change.
    pub id: FeedbackId,
    /// Good or bad.
    pub verdict: Verdict,
    /// What it is about.
    pub target_kind: TargetKind,
    /// Which run.
    pub agent_run_id: RunId,
}

/// Feedback of a workspace, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackList {
    /// How many match, when that was asked for.
    pub total: Option<u64>,
    /// Entries of a page.
    pub limit: u32,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// The page.
    pub feedback: Vec<FeedbackItem>,
}

/// One entry of [`FeedbackList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackItem {
    /// Its id.
    pub id: FeedbackId,
    /// Good or bad.
    pub verdict: Verdict,
    /// Why, in the person's words.
    pub explanation: Option<String>,
    /// What the person saw.
    pub content_snapshot: Option<String>,
    /// What it is about.
    pub target_kind: TargetKind,
    /// Which run.
    pub agent_run_id: RunId,
    /// The run's session.
    pub session_id: Option<SessionId>,
    /// The run's agent.
    pub agent_id: Option<AgentId>,
    /// When it was first said.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
}
