//! Request bodies of stored documents that differ from what is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Stores a secret.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSecret {
    /// The value. No response contains it.
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = crate::limits::SECRET_VALUE_MAX_BYTES), extend("writeOnly" = true))
    )]
    pub value: String,
}

/// A remote agent that speaks A2A, under a name of the workspace. Runs use it by `{"kind": "mantyx", "id": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalAgentDefinition {
    /// The model-facing name; absent means the slug with `_` for `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The URL of the agent card or of the JSON-RPC endpoint.
    pub agent_card_url: String,
    /// Headers of every request. Values may contain `{{secret:NAME}}`; literal values are secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The time limit of one call in milliseconds, at most 600,000; absent means 300,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}
