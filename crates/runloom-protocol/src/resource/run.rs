//! Runs, one by one and listed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::event::Sequenced;
use crate::id::{AgentId, ApprovalId, RunId, SessionId};
use crate::outcome::{FailureReason, ModelInfo, RunCancelled, SubagentUsage, Tokens};
use crate::spec::{AgentSpec, Metadata};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; no worker has started it yet.
    Queued,
    /// A worker executes it.
    Running,
    /// It waits for the result of a client tool.
    WaitingTool,
    /// It, or a run below it, waits for an approval.
    WaitingApproval,
    /// It ended with `result`.
    Succeeded,
    /// It ended with `error`.
    Failed,
    /// It ended with `cancelled`.
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

/// A run with its spec, status and result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The id of the run.
    pub id: RunId,
    /// The status of the run.
    pub status: RunStatus,
    /// The session of the run; `null` without one.
    pub session_id: Option<SessionId>,
    /// The stored agent of the run; `null` for an ephemeral run.
    pub agent_id: Option<AgentId>,
    /// The version of the stored agent. Absent for an ephemeral run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<u64>,
    /// The spec of the run, without secrets.
    pub agent_spec: AgentSpec,
    /// The files of the prompt, without their content. Absent without files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The beginning of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_preview: Option<String>,
    /// The answer. After a failure: the text up to the failure.
    pub final_text: Option<String>,
    /// The error message of a failed run.
    pub error: Option<String>,
    /// The class of the failure of a failed run.
    pub failure_reason: Option<FailureReason>,
    /// The client's labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// The approvals of the run, and of runs below it, that wait for a decision. Absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<ApprovalId>,
    /// Tokens over all turns; `null` until the run ends.
    pub tokens: Option<Tokens>,
    /// The number of model calls; `null` until the run ends.
    pub turns: Option<u32>,
    /// The model; `null` until the run ends.
    pub model: Option<ModelInfo>,
    /// When the run was accepted.
    pub created_at: String,
    /// When a worker started the run.
    pub started_at: Option<String>,
    /// When the run ended.
    pub completed_at: Option<String>,
    /// The cost in US dollars. Absent when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What a cancellation stopped. Absent when the run was not cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<RunCancelled>,
    /// The part of the sums that runs below used. Absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
    /// The run that started this run through a delegate. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The tool call that started this run. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The run at the root of the tree. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<RunId>,
    /// The number of levels above this run. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// A part of the events of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventList {
    /// The events, oldest first.
    pub events: Vec<Sequenced>,
    /// The `after` of the next request.
    pub last_seq: u64,
    /// Whether the log has more events after these. A response holds `limit` events and 8 MiB at most, but at least one
    /// event.
    pub truncated: bool,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The number of matches; `null` unless `includeTotal` was set.
    pub total: Option<u64>,
    /// The size of the page.
    pub limit: u32,
    /// The `cursor` of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// The runs of this page.
    pub runs: Vec<RunListItem>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunListItem {
    /// The id of the run.
    pub id: RunId,
    /// The session of the run; `null` without one.
    pub session_id: Option<SessionId>,
    /// The status of the run.
    pub status: RunStatus,
    /// The `name` of the spec.
    pub spec_name: Option<String>,
    /// The stored agent of the run; `null` for an ephemeral run.
    pub agent_id: Option<AgentId>,
    /// The catalog id of the model.
    pub model_id: Option<String>,
    /// The beginning of the prompt.
    pub input_preview: Option<String>,
    /// The beginning of the answer.
    pub output_preview: Option<String>,
    /// The error message of a failed run.
    pub error: Option<String>,
    /// Tokens over all turns; `null` until the run ends.
    pub tokens: Option<Tokens>,
    /// The number of model calls; `null` until the run ends.
    pub turns: Option<u32>,
    /// Milliseconds from the start to the end; `null` until the run ends.
    pub duration_ms: Option<u64>,
    /// The number of tool calls of any kind.
    pub tool_call_count: u32,
    /// The client's labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// When the run was accepted.
    pub created_at: String,
    /// When the run ended.
    pub completed_at: Option<String>,
    /// The run that started this run through a delegate. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The tool call that started this run. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The run at the root of the tree. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<RunId>,
    /// The number of levels above this run. Absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The cost of a run below another one, in US dollars. Absent for a root, until the run ends, and without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}
