//! Limits of turns, time, tokens and money of one run.

use serde::{Deserialize, Serialize};

use crate::check::unknown::UnknownFields;
use crate::limits;
use crate::read::Fields;

/// Limits of one run. An absent limit is the server's default, or none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Budgets {
    /// Tool turns before the finalise turn, 1 to 100; default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_turns: Option<u32>,
    /// Milliseconds from `startedAt` to the end of the run. Time in the queue does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wall_ms: Option<u64>,
    /// Output tokens over all turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Cost over all turns, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

impl Budgets {
    /// True when nothing is limited by the client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The `budgets` of a spec, an agent or a delegate.
pub(crate) fn read(fields: &Fields<'_, '_>, unknown: UnknownFields) -> Budgets {
    let Some(fields) = fields.fields("budgets") else {
        return Budgets::default();
    };
    let turns = limits::MAX_TOOL_TURNS_MIN..=limits::MAX_TOOL_TURNS_MAX;
    let budgets = Budgets {
        max_tool_turns: fields.integer("maxToolTurns", turns),
        max_wall_ms: fields.integer("maxWallMs", 1..=limits::INTEGER_MAX),
        max_output_tokens: fields.integer("maxOutputTokens", 1..=limits::INTEGER_MAX),
        max_cost_usd: fields
            .get("maxCostUsd")
            .and_then(|node| node.number("a number greater than 0", |dollars| dollars > 0.0)),
    };
    unknown.check_limits(&fields);
    budgets
}
