//! Runs, one by one and listed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::id::{AgentId, ApprovalId, RunId, SessionId};
use crate::outcome::{FailureReason, ModelInfo, RunCancelled, SubagentUsage, Tokens};
use crate::spec::{AgentSpec, Metadata};

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted, no worker yet.
    Queued,
    /// A worker has it.
    Running,
    /// A client's tool is being waited for.
    WaitingTool,
    /// A person's approval is being waited for, by the run or by a run below it.
    WaitingApproval,
    /// Ended with `result`.
    Succeeded,
    /// Ended with `error`.
    Failed,
    /// Ended with `cancelled`.
    Cancelled,
}

impl RunStatus {
    /// Every status, in the order of a run's life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::WaitingTool,
        Self::WaitingApproval,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingTool => "waiting_tool",
            Self::WaitingApproval => "waiting_approval",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// True when nothing can happen to the run any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `GET /agent-runs/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// Which run.
    pub id: RunId,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The session it belongs to.
    pub session_id: Option<SessionId>,
    /// The persisted agent it runs.
    pub agent_id: Option<AgentId>,
    /// Which version of that agent; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<u64>,
    /// The spec, its secrets removed.
    pub agent_spec: AgentSpec,
    /// The files of its prompt, without their content; left out without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The beginning of the prompt, as in lists; servers from before it leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_preview: Option<String>,
    /// The answer; after a failure what was said before it.
    pub final_text: Option<String>,
    /// Why it failed, for people.
    pub error: Option<String>,
    /// Why it failed, for programs.
    pub failure_reason: Option<FailureReason>,
    /// Client labels, as they were when the run was created.
    #[serde(default)]
    pub metadata: Metadata,
    /// Approvals of the run, and of runs below it, that wait for a decision; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<ApprovalId>,
    /// Sums of the run; `null` until it ends.
    pub tokens: Option<Tokens>,
    /// Model invocations; `null` until it ends.
    pub turns: Option<u32>,
    /// The model; `null` until it ends.
    pub model: Option<ModelInfo>,
    /// When it was accepted.
    pub created_at: String,
    /// When a worker began.
    pub started_at: Option<String>,
    /// When it ended.
    pub completed_at: Option<String>,
    /// Money; left out when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The receipt of a cancel; left out when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<RunCancelled>,
    /// The part of the sums that runs below used; left out when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
    /// The run that called the delegate; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The call that started it; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The run that a client started; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<RunId>,
    /// Levels above it; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// `GET /agent-runs`, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// How many match, when the request asked for it.
    pub total: Option<u64>,
    /// The page's size.
    pub limit: u32,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
    /// The page.
    pub runs: Vec<RunListItem>,
}

/// One run of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunListItem {
    /// Which run.
    pub id: RunId,
    /// The session it belongs to.
    pub session_id: Option<SessionId>,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The spec's `name`.
    pub spec_name: Option<String>,
    /// The persisted agent it runs.
    pub agent_id: Option<AgentId>,
    /// Catalog id of the model.
    pub model_id: Option<String>,
    /// The beginning of the prompt.
    pub input_preview: Option<String>,
    /// The beginning of the answer.
    pub output_preview: Option<String>,
    /// Why it failed, for people.
    pub error: Option<String>,
    /// Sums of the run; `null` until it ends.
    pub tokens: Option<Tokens>,
    /// Model invocations; `null` until it ends.
    pub turns: Option<u32>,
    /// Milliseconds from the start to the end.
    pub duration_ms: Option<u64>,
    /// Tool calls of any kind.
    pub tool_call_count: u32,
    /// Client labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// When it was accepted.
    pub created_at: String,
    /// When it ended.
    pub completed_at: Option<String>,
    /// The run that called the delegate; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The call that started it; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The run that a client started; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<RunId>,
    /// Levels above it; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// A child's money; left out for a root, until it ends, and without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}
