//! Models: one constructor per provider.

use std::sync::Arc;

use runloom_engine::catalog::{CatalogModel, Pricing, Source};
use runloom_models::{ModelSettings, OpenError, ProviderSettings};
use runloom_ports::model::Model as ModelPort;
use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;

/// A model that agents can use. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Model {
    provider: &'static str,
    vendor_model_id: String,
    pricing: Option<Pricing>,
    pub(crate) port: Arc<dyn ModelPort>,
}

impl Model {
    /// The prices in US dollars per million tokens, for `max_cost_usd`.
    #[must_use]
    pub fn price(mut self, input: f64, output: f64) -> Self {
        self.pricing = Some(Pricing {
            input_per_1m_usd: input,
            output_per_1m_usd: output,
            cache_read_per_1m_usd: None,
        });
        self
    }

    /// The id in events: `<provider>/<model>`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.provider, self.vendor_model_id)
    }

    pub(crate) fn entry(&self, id: String) -> CatalogModel {
        CatalogModel {
            label: id.clone(),
            provider_id: id.clone(),
            id,
            provider: self.provider.to_owned(),
            vendor_model_id: self.vendor_model_id.clone(),
            source: Source::WorkspaceProvider,
            context_window: None,
            pricing: self.pricing,
            reasoning: self.port.capabilities().reasoning,
            max_output_tokens: None,
            model: Arc::clone(&self.port),
        }
    }
}

fn open(
    kind: ProviderKind,
    provider: &'static str,
    settings: ProviderSettings,
    model: &str,
) -> Result<Model, OpenError> {
    let own = ModelSettings {
        vendor_model_id: model.to_owned(),
        ..ModelSettings::default()
    };
    let settings = ProviderSettings {
        id: provider.to_owned(),
        ..settings
    };
    Ok(Model {
        provider,
        vendor_model_id: model.to_owned(),
        pricing: None,
        port: runloom_models::open(kind, &settings, &own)?,
    })
}

fn with_key(key: &str) -> ProviderSettings {
    ProviderSettings {
        api_key: Some(Secret::new(key)),
        ..ProviderSettings::default()
    }
}

/// The offline demo model, which follows directives in the prompt.
///
/// # Panics
/// Never: the demo model has no settings.
#[must_use]
pub fn demo() -> Model {
    let opened = open(
        ProviderKind::Demo,
        "demo",
        ProviderSettings::default(),
        "demo",
    );
    #[expect(
        clippy::expect_used,
        reason = "the demo model has no settings to refuse"
    )]
    opened.expect("the demo model opens")
}

/// A model behind the Chat Completions API of any server.
///
/// # Errors
/// When the address is malformed.
pub fn openai_compatible(
    base_url: &str,
    key: Option<&str>,
    model: &str,
) -> Result<Model, OpenError> {
    let settings = ProviderSettings {
        base_url: Some(base_url.to_owned()),
        api_key: key.map(Secret::new),
        ..ProviderSettings::default()
    };
    open(
        ProviderKind::OpenaiCompatible,
        "openai_compatible",
        settings,
        model,
    )
}

/// A model of OpenAI, through the Responses API.
///
/// # Errors
/// When the key is empty.
pub fn openai(key: &str, model: &str) -> Result<Model, OpenError> {
    open(ProviderKind::Openai, "openai", with_key(key), model)
}

/// A model of Anthropic.
///
/// # Errors
/// When the key is empty.
pub fn anthropic(key: &str, model: &str) -> Result<Model, OpenError> {
    open(ProviderKind::Anthropic, "anthropic", with_key(key), model)
}

/// A Gemini model of Google.
///
/// # Errors
/// When the key is empty.
pub fn gemini(key: &str, model: &str) -> Result<Model, OpenError> {
    open(ProviderKind::Google, "google", with_key(key), model)
}

/// A model of xAI.
///
/// # Errors
/// When the key is empty.
pub fn xai(key: &str, model: &str) -> Result<Model, OpenError> {
    open(ProviderKind::Xai, "xai", with_key(key), model)
}
