//! Approvals: a person's decisions about tool calls, and the sub-actions of a call that are decided one by one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::ApprovalId;
use crate::policy::Decision;
use crate::read::keywords;

keywords! {
    /// The decision of a person.
    pub enum ApprovalVerdict {
        /// The call is executed.
        Approve = "approve",
        /// The call is not executed.
        Deny = "deny",
    }
}

keywords! {
    /// The state of an approval.
    pub enum ApprovalStatus {
        /// Nobody has decided.
        Pending = "pending",
        /// A person approved.
        Approved = "approved",
        /// A person denied.
        Denied = "denied",
        /// Nobody decided in time.
        Expired = "expired",
        /// The run ended first.
        Cancelled = "cancelled",
    }
}

impl From<ApprovalVerdict> for ApprovalStatus {
    fn from(verdict: ApprovalVerdict) -> Self {
        match verdict {
            ApprovalVerdict::Approve => Self::Approved,
            ApprovalVerdict::Deny => Self::Denied,
        }
    }
}

keywords! {
    /// What decided an approval.
    pub enum DeciderKind {
        /// An API key.
        Key = "key",
        /// An access token, named by its grant.
        Grant = "grant",
        /// The time ran out.
        Timeout = "timeout",
    }
}

/// Who decided an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedBy {
    /// What it is.
    pub kind: DeciderKind,
    /// Id of the credential; left out for a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl DecidedBy {
    /// The time ran out.
    #[must_use]
    pub fn timeout() -> Self {
        Self {
            kind: DeciderKind::Timeout,
            id: None,
        }
    }
}

/// `POST /agent-runs/{id}/approvals`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecideApproval {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// What is decided.
    pub ruling: Ruling,
}

/// What a person decided about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ruling {
    /// Whether the call, or each of its sub-actions that wait, is executed.
    pub decision: ApprovalVerdict,
    /// The arguments to execute instead, when the person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Decisions about single sub-actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_decisions: Vec<SubDecision>,
    /// What the person says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Ruling {
    /// Whether both decide the same; notes may differ.
    #[must_use]
    pub fn decides_as(&self, other: &Self) -> bool {
        self.decision == other.decision
            && self.input == other.input
            && self.sub_decisions == other.sub_decisions
    }
}

/// A decision about one sub-action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubDecision {
    /// Which sub-action of the call.
    pub id: String,
    /// Whether it is executed.
    pub decision: ApprovalVerdict,
    /// The element to execute instead, when the person changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What the person says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A sub-action of a call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedSubAction {
    /// The index of its element.
    pub id: String,
    /// `<tool>.<made name>`.
    pub name: String,
    /// The element.
    pub input: Value,
    /// The decision of the policy.
    pub decision: Decision,
    /// The reason of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
