//! Providers that a workspace brings along.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::read::keywords;
use crate::tools::Object;

/// A model provider of a workspace, with its models.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderDefinition {
    /// The API of the provider.
    pub kind: ProviderKind,
    /// The base URL; absent means the vendor's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The credential, like `{{secret:OPENAI}}`. A literal value is sealed and never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Headers of every request. Values may contain `{{secret:NAME}}`; literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The URL of an HTTP or SOCKS proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The models of the provider.
    #[serde(default)]
    pub models: Vec<ModelDefinition>,
    /// Whether `provider:<id>:<vendor model>` runs a model that `models` does not list; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_unlisted_models: Option<bool>,
    /// Settings of this kind of provider, for example `region` or `api_version`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub options: Object,
}

impl fmt::Debug for ProviderDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be credentials: only their names are shown.
        f.debug_struct("ProviderDefinition")
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .field("headers", &self.headers.keys())
            .field("models", &self.models)
            .field("options", &self.options.keys())
            .finish_non_exhaustive()
    }
}

keywords! {
    /// The API of a provider.
    pub enum ProviderKind {
        /// OpenAI's Responses API.
        Openai = "openai",
        /// OpenAI's Responses API at Azure.
        AzureOpenai = "azure-openai",
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// Anthropic's models at AWS.
        Bedrock = "bedrock",
        /// Google's Gemini API.
        Google = "google",
        /// The API of xAI.
        Xai = "xai",
        /// Chat completions: OpenRouter, Ollama, vLLM and others.
        OpenaiCompatible = "openai-compatible",
        /// The offline demo model.
        Demo = "demo",
    }
}

impl ProviderKind {
    /// The value of `gen_ai.provider.name` in OpenTelemetry's semantic conventions.
    #[must_use]
    pub fn trace_name(self) -> &'static str {
        match self {
            Self::AzureOpenai => "azure.ai.openai",
            Self::Bedrock => "aws.bedrock",
            Self::Google => "gcp.gemini",
            Self::Xai => "x_ai",
            Self::Openai | Self::Anthropic | Self::OpenaiCompatible | Self::Demo => self.as_str(),
        }
    }
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelDefinition {
    /// The vendor's name of the model.
    pub id: String,
    /// The display name; absent means the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The size of the context window in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The output tokens of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether the model reasons; absent means that the name decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// The price of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<ModelPrice>,
    /// Whether runs without `modelId` use the model, unless the server's configuration names another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// Input that was not read from a cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input that was read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
}
