//! What was used, and what a run would use.

use serde::{Deserialize, Serialize};

use crate::outcome::{ModelInfo, Tokens};

/// `GET /usage`: what a workspace used, by day, model or key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// First day, `2026-10-01`, UTC.
    pub from: String,
    /// Last day, included.
    pub to: String,
    /// By what the rows are added up.
    pub group_by: UsageGroupBy,
    /// In the order of the group.
    pub rows: Vec<UsageLine>,
    /// Their sum.
    pub total: UsageSums,
}

/// By what usage is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageGroupBy {
    /// Day, UTC.
    Day,
    /// Catalog id of the model.
    Model,
    /// Id of the API key.
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

/// One row; it has the one id by which the report is grouped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageLine {
    /// The day, when grouped by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The model, when grouped by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The key, when grouped by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: UsageSums,
}

/// Sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSums {
    /// Runs that ended.
    pub runs: u64,
    /// Model invocations.
    pub turns: u64,
    /// Tokens, as in terminal events.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// Money; models without a price add nothing.
    pub cost_usd: f64,
}

/// `POST /agent-runs?dryRun=1`: what would be sent, and what it could cost. Nothing was created and no model called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// Always true.
    pub dry_run: bool,
    /// The model that would run.
    pub model: ModelInfo,
    /// Names of the tools that it would be offered.
    pub tools: Vec<String>,
    /// Whether an output schema would be enforced.
    pub schema_requested: bool,
    /// An estimate of the first prompt's tokens.
    pub estimated_prompt_tokens: u64,
    /// Upper bound of the output of one turn, when there is one.
    pub max_output_tokens: Option<u64>,
    /// Tool turns before the run is made to finish.
    pub max_tool_turns: u32,
    /// What the first turn can cost at worst; `null` when the model has no price.
    pub worst_case_turn_usd: Option<f64>,
    /// What the run can cost at worst; `null` when the model has no price. Without a budget of money,
    /// what tools return comes on top.
    pub worst_case_run_usd: Option<f64>,
    /// The budgets of money that apply.
    pub budgets: Vec<AppliedBudget>,
    /// What the caller may want to know before it starts the run.
    pub warnings: Vec<String>,
}

/// A budget of money that applies to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedBudget {
    /// `run`, `workspace` or `key`.
    pub scope: String,
    /// How much in all.
    pub limit_usd: f64,
    /// How much is left now, what calls under way have reserved not counted.
    pub remaining_usd: f64,
    /// When it refills, RFC 3339; left out for the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refills_at: Option<String>,
}
