//! Approvals, one by one and listed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, JudgedSubAction};
use crate::id::{AgentId, ApprovalId, RunId, SessionId};
use crate::policy::CallEffect;
use crate::spec::Metadata;

/// A request for the decision of a user about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The id of the approval.
    pub approval_id: ApprovalId,
    /// The status of the approval.
    pub status: ApprovalStatus,
    /// The run that asks.
    pub run_id: RunId,
    /// The run at the root of the tree: the run itself, or the first of its ancestors.
    pub root_run_id: RunId,
    /// The depth of the run that asks.
    pub depth: u32,
    /// The tool call that waits.
    pub tool_use_id: String,
    /// The model-facing name of its tool.
    pub name: String,
    /// The arguments of the call, as the model wrote them.
    pub input: Value,
    /// The effect of the call.
    pub effect: CallEffect,
    /// The MCP annotations of the tool. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// The id of the rule that asks. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason of the policy. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The sub-actions of the call. Absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_actions: Vec<JudgedSubAction>,
    /// The stored agent of the run that asks.
    pub agent_id: Option<AgentId>,
    /// The session of the run that asks.
    pub session_id: Option<SessionId>,
    /// The client's labels of the run.
    #[serde(default)]
    pub metadata: Metadata,
    /// When the approval was requested.
    pub created_at: String,
    /// When the call is denied, unless it is decided before.
    pub expires_at: String,
    /// The decision; `null` while it is pending.
    pub decision: Option<ApprovalVerdict>,
    /// The arguments that are executed instead; `null` unless a user changed them.
    pub edited_input: Option<Value>,
    /// The note of the user.
    pub note: Option<String>,
    /// The credential that decided, or the timeout; `null` while it is pending.
    pub by: Option<DecidedBy>,
    /// When it was decided; `null` while it is pending.
    pub decided_at: Option<String>,
}

/// A page of approvals, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalList {
    /// The number of matches; `null` unless `includeTotal` was set.
    pub total: Option<u64>,
    /// The size of the page.
    pub limit: u32,
    /// The `cursor` of the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// The approvals of this page.
    pub approvals: Vec<Approval>,
}

/// The decision is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalReceipt {
    /// Always `true`.
    pub ok: bool,
    /// The approval after the decision.
    pub approval: Approval,
}
