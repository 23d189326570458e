//! The catalog of models.

use serde::{Deserialize, Serialize};

/// `GET /models`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCatalog {
    /// Every model that the credential's workspace can run.
    pub models: Vec<CatalogEntry>,
    /// What a spec without `modelId` gets.
    pub default_model_id: Option<String>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogEntry {
    /// What a spec names it by.
    pub id: String,
    /// For people.
    pub label: String,
    /// `openai`, `anthropic`, … as section 8 of the protocol lists them.
    pub provider: String,
    /// The vendor's own name.
    pub vendor_model_id: String,
    /// Who pays the vendor.
    pub source: ModelSource,
    /// How much it can read.
    pub context_window_tokens: Option<u64>,
    /// What it costs, when that is known.
    pub pricing: Option<Pricing>,
}

/// Where a model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The server offers it.
    PlatformOffering,
    /// The workspace brought its own provider.
    WorkspaceProvider,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pricing {
    /// Fresh input.
    #[serde(rename = "inputPer1MUsd")]
    pub input_per_1m_usd: f64,
    /// Output, thinking included.
    #[serde(rename = "outputPer1MUsd")]
    pub output_per_1m_usd: f64,
    /// Input that was read from a cache; `null` when the vendor has no such price.
    #[serde(rename = "cacheReadPer1MUsd")]
    pub cache_read_per_1m_usd: Option<f64>,
}
