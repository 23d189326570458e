//! The event of a compaction.

use serde::{Deserialize, Serialize};

/// Payload of `context_compacted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextCompacted {
    /// Estimated tokens of the request before.
    pub before_tokens: u64,
    /// Estimated tokens of the request after.
    pub after_tokens: u64,
    /// How many turns were replaced.
    pub turns: u32,
    /// The catalog id of the model that wrote the summary, or was asked to.
    pub model: String,
    /// False when no summary could be made: the turns were dropped.
    pub summarised: bool,
    /// Why no summary could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
