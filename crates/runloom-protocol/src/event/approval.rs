//! Payloads of the events about approvals and sub-actions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, JudgedSubAction, SubDecision};
use crate::id::{ApprovalId, RunId};
use crate::policy::CallEffect;
use crate::read::keywords;

/// Payload of `approval_requested`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// The id of the approval.
    pub approval_id: ApprovalId,
    /// The run that asks: this one, or one below it.
    pub run_id: RunId,
    /// The depth of that run.
    pub depth: u32,
    /// The tool call that waits.
    pub tool_use_id: String,
    /// The model-facing name of its tool.
    pub name: String,
    /// The arguments of the call.
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
    /// The sub-actions of the call, each with the decision of the policy. Absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_actions: Vec<JudgedSubAction>,
    /// When the call is denied, unless it is decided before.
    pub expires_at: String,
}

/// Payload of `approval_decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// The id of the approval.
    pub approval_id: ApprovalId,
    /// The run that asked.
    pub run_id: RunId,
    /// The depth of that run.
    pub depth: u32,
    /// The tool call that waited.
    pub tool_use_id: String,
    /// The model-facing name of its tool.
    pub name: String,
    /// The decision.
    pub decision: ApprovalVerdict,
    /// `approved`, `denied` or `expired`.
    pub status: ApprovalStatus,
    /// The arguments to execute instead. Absent unless a user changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Decisions about single sub-actions. Absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_decisions: Vec<SubDecision>,
    /// The note of the user. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The credential that decided, or the timeout.
    pub by: DecidedBy,
    /// When it was decided.
    pub decided_at: String,
}

keywords! {
    /// The state of a sub-action.
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

/// Payload of `sub_action`: the state of one action inside a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SubAction"))]
#[serde(rename_all = "camelCase")]
pub struct SubActionEvent {
    /// The tool call that contains the sub-action.
    pub tool_use_id: String,
    /// The index of the element in the arguments.
    pub sub_action_id: String,
    /// The name of the sub-action, `<tool>.<name>`.
    pub name: String,
    /// The state of the sub-action.
    pub phase: SubActionPhase,
    /// The element that is executed. Only with `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The output. Only with `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why the sub-action failed. Only with `errored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the sub-action is not executed. Only with `denied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
