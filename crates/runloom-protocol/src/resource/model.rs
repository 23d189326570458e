//! The catalog of models.

use serde::{Deserialize, Serialize};

/// The models of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelCatalog {
    /// Every model that the workspace can use.
    pub models: Vec<CatalogEntry>,
    /// The model of a run without `modelId`; `null` when there is none.
    pub default_model_id: Option<String>,
}

/// A model of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CatalogEntry {
    /// The catalog id: the value for `modelId`.
    pub id: String,
    /// The display name.
    pub label: String,
    /// The provider: `openai`, `anthropic`, `google` and others.
    pub provider: String,
    /// The vendor's name of the model.
    pub vendor_model_id: String,
    /// The origin of the model.
    pub source: ModelSource,
    /// The size of the context window; `null` when it is not known.
    pub context_window_tokens: Option<u64>,
    /// The price; `null` when it is not known.
    pub pricing: Option<Pricing>,
}

/// The origin of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The server's configuration offers it to every workspace.
    PlatformOffering,
    /// A provider of the workspace offers it.
    WorkspaceProvider,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pricing {
    /// Input that was not read from a cache.
    #[serde(rename = "inputPer1MUsd")]
    pub input_per_1m_usd: f64,
    /// Output, reasoning included.
    #[serde(rename = "outputPer1MUsd")]
    pub output_per_1m_usd: f64,
    /// Input that was read from a cache; `null` when the vendor has no separate price.
    #[serde(rename = "cacheReadPer1MUsd")]
    pub cache_read_per_1m_usd: Option<f64>,
}
