//! Approvals, one by one and listed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, JudgedSubAction};
use crate::id::{AgentId, ApprovalId, RunId, SessionId};
use crate::policy::CallEffect;
use crate::spec::Metadata;

/// `GET /approvals/{approvalId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// Its state.
    pub status: ApprovalStatus,
    /// The run that asks.
    pub run_id: RunId,
    /// The run that a client started: the run itself, or the first of its ancestors.
    pub root_run_id: RunId,
    /// Depth of the run that asks.
    pub depth: u32,
    /// The call that waits.
    pub tool_use_id: String,
    /// Model-facing name of its tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub input: Value,
    /// Its effect.
    pub effect: CallEffect,
    /// The tool's own hints; left out when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Id of the rule that asks; left out when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why the policy asks; left out when it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The sub-actions of the call; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_actions: Vec<JudgedSubAction>,
    /// The persisted agent of the run that asks.
    pub agent_id: Option<AgentId>,
    /// The session of the run that asks.
    pub session_id: Option<SessionId>,
    /// Labels of the run.
    #[serde(default)]
    pub metadata: Metadata,
    /// When it was asked.
    pub created_at: String,
    /// When the call is denied unless somebody decides before.
    pub expires_at: String,
    /// What was decided; `null` while it is pending.
    pub decision: Option<ApprovalVerdict>,
    /// The arguments that are executed instead; `null` unless a person changed them.
    pub edited_input: Option<Value>,
    /// What the person said.
    pub note: Option<String>,
    /// Who decided; `null` while it is pending.
    pub by: Option<DecidedBy>,
    /// When it was decided; `null` while it is pending.
    pub decided_at: Option<String>,
}

/// `GET /approvals`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalList {
    /// How many match, when the request asked for it.
    pub total: Option<u64>,
    /// The page's size.
    pub limit: u32,
    /// Where the next page begins; `null` on the last one.
    pub next_cursor: Option<String>,
    /// The page.
    pub approvals: Vec<Approval>,
}

/// The decision is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalReceipt {
    /// Always true.
    pub ok: bool,
    /// The approval as it is now.
    pub approval: Approval,
}
