//! What was used, and what a run would use.

use serde::{Deserialize, Serialize};

use crate::outcome::{ModelInfo, Tokens};

/// The usage of a workspace, by day, model or API key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// The first day, `2026-10-01`, UTC.
    pub from: String,
    /// The last day, inclusive.
    pub to: String,
    /// How the rows are grouped.
    pub group_by: UsageGroupBy,
    /// The rows, sorted by day, model or key.
    pub rows: Vec<UsageLine>,
    /// The sum of the rows.
    pub total: UsageSums,
}

/// How usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageGroupBy {
    /// By day, UTC.
    Day,
    /// By catalog id of the model.
    Model,
    /// By id of the API key.
    Key,
}

impl UsageGroupBy {
    /// Reads the word of a query.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "day" => Some(Self::Day),
            "model" => Some(Self::Model),
            "key" => Some(Self::Key),
            _ => None,
        }
    }
}

/// The usage of one day, model or API key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageLine {
    /// The day. Absent unless grouped by day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The model. Absent unless grouped by model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The API key. Absent unless grouped by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: UsageSums,
}

/// Sums over runs that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageSums {
    /// The number of runs.
    pub runs: u64,
    /// The number of model calls.
    pub turns: u64,
    /// Tokens, as in terminal events.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// The cost in US dollars. Models without a price count as 0.
    pub cost_usd: f64,
}

/// The result of a dry run: what would be sent to the model, and what it could cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// Always `true`.
    pub dry_run: bool,
    /// The model of the run.
    pub model: ModelInfo,
    /// The names of the tools that the model would get.
    pub tools: Vec<String>,
    /// Whether the spec has an `outputSchema`.
    pub schema_requested: bool,
    /// An estimate of the tokens of the first prompt.
    pub estimated_prompt_tokens: u64,
    /// The limit of output tokens of one turn; `null` when there is none.
    pub max_output_tokens: Option<u64>,
    /// Tool turns before the finalise turn.
    pub max_tool_turns: u32,
    /// The highest possible cost of the first turn in US dollars; `null` when the model has no price.
    pub worst_case_turn_usd: Option<f64>,
    /// The highest possible cost of the run in US dollars; `null` when the model has no price. Without a cost budget,
    /// the tokens of tool results are not included.
    pub worst_case_run_usd: Option<f64>,
    /// The cost budgets that apply to the run.
    pub budgets: Vec<AppliedBudget>,
    /// Problems that do not prevent the run, for example unknown fields.
    pub warnings: Vec<String>,
}

/// A cost budget that applies to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AppliedBudget {
    /// The scope of the budget: `run`, `workspace` or `key`.
    pub scope: String,
    /// The budget in US dollars.
    pub limit_usd: f64,
    /// The remaining amount in US dollars. Amounts reserved by calls in flight are not available.
    pub remaining_usd: f64,
    /// When the budget refills. Absent for the budget of the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refills_at: Option<String>,
}
