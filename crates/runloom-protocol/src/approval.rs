//! Approvals: a person's decisions about tool calls, and the sub-actions of a call that are decided one by one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::ApprovalId;
use crate::policy::Decision;
use crate::read::keywords;

keywords! {
    /// The decision of a user.
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
        /// A user approved.
        Approved = "approved",
        /// A user denied.
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

/// The credential that decided an approval, or the timeout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecidedBy {
    /// The kind of the credential.
    pub kind: DeciderKind,
    /// The id of the credential. Absent for a timeout.
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

/// The decision of a user about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename_all = "camelCase"))]
pub struct DecideApproval {
    /// The id of the approval.
    pub approval_id: ApprovalId,
    /// The decision.
    #[cfg_attr(feature = "schema", schemars(flatten))]
    pub ruling: Ruling,
}

/// The decision of a user about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ruling {
    /// Whether the call, or each of its sub-actions that wait, is executed.
    pub decision: ApprovalVerdict,
    /// The arguments to execute instead, when the user changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Decisions about single sub-actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_decisions: Vec<SubDecision>,
    /// A note of the user.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubDecision {
    /// The id of the sub-action.
    pub id: String,
    /// Whether it is executed.
    pub decision: ApprovalVerdict,
    /// The element to execute instead, when the user changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A note of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A sub-action of a call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgedSubAction {
    /// The index of the element in the arguments.
    pub id: String,
    /// The name of the sub-action, `<tool>.<name>`.
    pub name: String,
    /// The element.
    pub input: Value,
    /// The decision of the policy.
    pub decision: Decision,
    /// The reason of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
