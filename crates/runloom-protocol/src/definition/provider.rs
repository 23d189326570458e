//! Providers that a workspace brings along.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::read::keywords;
use crate::tools::Object;

/// A provider and its models.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderDefinition {
    /// Which API it speaks.
    pub kind: ProviderKind,
    /// Where it is; `None` = the vendor's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Its credential: a template like `{{secret:OPENAI}}`; a literal value is sealed and never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Sent with every call: templates; literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// An HTTP or SOCKS proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Its models.
    #[serde(default)]
    pub models: Vec<ModelDefinition>,
    /// Keys that only its adapter knows (`region`, `api_version`, …), in the adapter's own spelling.
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
    /// The kinds of providers: which API one speaks.
    pub enum ProviderKind {
        /// OpenAI's Responses API.
        Openai = "openai",
        /// OpenAI's Responses API at Azure.
        AzureOpenai = "azure-openai",
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// Anthropic's models at AWS.
        Bedrock = "bedrock",
        /// Gemini.
        Google = "google",
        /// Grok.
        Xai = "xai",
        /// Chat completions: OpenRouter, Ollama, vLLM…
        OpenaiCompatible = "openai-compatible",
        /// The offline model.
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

/// One model of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelDefinition {
    /// The vendor's own name.
    pub id: String,
    /// For people; `None` = the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Tokens that it can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether it reasons; `None` = the adapter decides by the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<ModelPrice>,
    /// What a spec without `modelId` gets, unless the server's configuration names another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
}
