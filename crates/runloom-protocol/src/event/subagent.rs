//! Payload of `subagent`.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::outcome::{ModelInfo, Tokens};

/// Payload of `subagent`: the state of a run below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Subagent {
    /// The state of the run.
    pub phase: SubagentPhase,
    /// The name of the delegate.
    pub name: String,
    /// The call that started the run, in the log of its parent.
    pub tool_use_id: String,
    /// The id of the run.
    pub run_id: RunId,
    /// The run that called the delegate.
    pub parent_run_id: RunId,
    /// The depth of the run; 1 for a child of a root.
    pub depth: u32,
    /// The span of the run, 16 hexadecimal digits.
    pub span_id: String,
    /// The span of the run that called it.
    pub parent_span_id: String,
    /// The catalog id of the model. Only with `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The approvals that the run waits for. Only with `paused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_ids: Vec<String>,
    /// The error message. Only with `errored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The class of the error, or `cancelled`. Only with `errored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// The tokens of the run and all runs below it, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The number of model calls of the run and all runs below it, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The model that gave the answer, at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInfo>,
    /// The cost in US dollars, at the end of the run. Absent when no model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The state of a run below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
