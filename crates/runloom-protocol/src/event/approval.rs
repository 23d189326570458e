//! Payloads of the events about approvals and sub-actions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, JudgedSubAction, SubDecision};
use crate::id::{ApprovalId, RunId};
use crate::policy::CallEffect;
use crate::read::keywords;

/// Payload of `approval_requested`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// The run that asks: this one, or one below it.
    pub run_id: RunId,
    /// Depth of that run.
    pub depth: u32,
    /// The call that waits.
    pub tool_use_id: String,
    /// Model-facing name of its tool.
    pub name: String,
    /// Its arguments.
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
    /// The sub-actions of the call, each with the decision of the policy; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_actions: Vec<JudgedSubAction>,
    /// When the call is denied unless somebody decides before.
    pub expires_at: String,
}

/// Payload of `approval_decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// The run that asked.
    pub run_id: RunId,
    /// Depth of that run.
    pub depth: u32,
    /// The call that waited.
    pub tool_use_id: String,
    /// Model-facing name of its tool.
    pub name: String,
    /// What was decided.
    pub decision: ApprovalVerdict,
    /// `approved`, `denied` or `expired`.
    pub status: ApprovalStatus,
    /// The arguments to execute instead; left out unless a person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Decisions about single sub-actions; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_decisions: Vec<SubDecision>,
    /// What the person says; left out when nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who decided.
    pub by: DecidedBy,
    /// When.
    pub decided_at: String,
}

keywords! {
    /// How far a sub-action is.
    pub enum SubActionPhase {
        /// It is about to be executed.
        Start = "start",
        /// It succeeded.
        Completed = "completed",
        /// It failed.
        Errored = "errored",
        /// It is not executed.
        Denied = "denied",
    }
}

/// Payload of `sub_action`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubActionEvent {
    /// The call that it is part of.
    pub tool_use_id: String,
    /// The index of its element.
    pub sub_action_id: String,
    /// `<tool>.<made name>`.
    pub name: String,
    /// How far it is.
    pub phase: SubActionPhase,
    /// `start`: the element that is executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// `completed`: the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// `errored`: why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `denied`: why it is not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
