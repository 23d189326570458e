//! Payload of `subagent`.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::outcome::{ModelInfo, Tokens};

/// Payload of `subagent`: what happens to a run below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subagent {
    /// What happens.
    pub phase: SubagentPhase,
    /// Name of the delegate.
    pub name: String,
    /// The call that started the run, in the log of its parent.
    pub tool_use_id: String,
    /// The run.
    pub run_id: RunId,
    /// The run that called the delegate.
    pub parent_run_id: RunId,
    /// Depth of the run; 1 for a child of a root.
    pub depth: u32,
    /// The span of the run, 16 hexadecimal digits.
    pub span_id: String,
    /// The span of the run that called it.
    pub parent_span_id: String,
    /// `start`: catalog id of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// `paused`: the approvals that are waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_ids: Vec<String>,
    /// `errored`: why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `errored`: the class of the error, or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// At the end: sums of the run and all runs below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// At the end: model invocations of the run and all runs below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// At the end: the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInfo>,
    /// At the end: money, when a model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// What happens to a run below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentPhase {
    /// It is durable.
    Start,
    /// It, or a run below it, waits for an approval.
    Paused,
    /// It ended with `result`.
    Completed,
    /// It ended with `error` or `cancelled`.
    Errored,
}
