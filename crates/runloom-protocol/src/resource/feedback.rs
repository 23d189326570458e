//! Feedback on runs, as the API returns it.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, FeedbackId, RunId, SessionId};
use crate::spec::Verdict;

/// What a feedback is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A run.
    #[default]
    AgentRun,
}

/// The feedback was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackReceipt {
    /// The id of the feedback. A later feedback on the same run keeps it.
    pub id: FeedbackId,
    /// The verdict.
    pub verdict: Verdict,
    /// What the feedback is about.
    pub target_kind: TargetKind,
    /// The run.
    pub agent_run_id: RunId,
}

/// A page of feedback, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackList {
    /// The number of matches; `null` unless `includeTotal` was set.
    pub total: Option<u64>,
    /// The size of the page.
    pub limit: u32,
    /// The `cursor` of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// The feedback of this page. A page ends early when its texts are large.
    pub feedback: Vec<FeedbackItem>,
}

/// Feedback on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackItem {
    /// The id of the feedback.
    pub id: FeedbackId,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason that the user gave.
    pub explanation: Option<String>,
    /// The text that the user saw.
    pub content_snapshot: Option<String>,
    /// What the feedback is about.
    pub target_kind: TargetKind,
    /// The run.
    pub agent_run_id: RunId,
    /// The session of the run.
    pub session_id: Option<SessionId>,
    /// The stored agent of the run.
    pub agent_id: Option<AgentId>,
    /// When the first feedback on the run was given.
    pub created_at: String,
    /// When the feedback was last changed.
    pub updated_at: String,
}
