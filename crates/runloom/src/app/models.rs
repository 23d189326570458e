//! The model catalog, from the configuration and stored providers. Each model is opened once and shared by all runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use runloom_engine::catalog::{
    Catalog, CatalogModel, Pricing, Source, UnlistedModels, WorkspaceModels,
};
use runloom_engine::catalog_builder::{CatalogBuilder, StoredProvider};
use runloom_models::{CallRecorder, ModelSettings, ProviderSettings, Timeouts};
use runloom_ports::error::Error;
use runloom_ports::secret::Secret;

use runloom_protocol::definition::ModelDefinition;

use crate::config::{Config, ModelConfig, PricingConfig, ProviderConfig};

/// Platform models that need no key. The second is a fallback for the first.
const DEMO: &str = "demo";
const DEMO_SPARE: &str = "demo-spare";

/// Longest vendor model id that a client may name beyond the catalog.
const VENDOR_MODEL_ID_MAX_BYTES: usize = 256;

/// Opens the models of the configuration and of stored providers.
pub(super) struct Models {
    declared: Catalog,
    /// Workspace and id of the providers that the configuration declares.
    ids: HashSet<(String, String)>,
    calls: Calls,
}

/// How models are called.
#[derive(Clone, Default)]
struct Calls {
    timeouts: Timeouts,
    recorder: Option<CallRecorder>,
}

impl Calls {
    fn of(config: &Config) -> Self {
        Self {
            timeouts: Timeouts {
                first_byte_ms: config.runs.provider_first_byte_ms,
                idle_ms: config.runs.provider_idle_ms,
                total_ms: config.runs.provider_timeout_ms,
                ..Timeouts::default()
            },
            recorder: None,
        }
    }
}

/// The models of the configuration, with a recorder of their calls.
pub(crate) fn recorded(config: &Config) -> Result<(Catalog, CallRecorder)> {
    let recorder = CallRecorder::default();
    let calls = Calls {
        recorder: Some(recorder.clone()),
        ..Calls::of(config)
    };
    Ok((catalog(config, &calls)?, recorder))
}

/// Why the models of the configuration cannot be opened, if they cannot.
pub(super) fn problem(config: &Config) -> Option<anyhow::Error> {
    catalog(config, &Calls::of(config)).err()
}

impl Models {
    /// Opens every model that the configuration names.
    pub(super) fn declared(config: &Config) -> Result<Self> {
        let calls = Calls::of(config);
        let ids = config.workspaces.iter().flat_map(|workspace| {
            let slug = &workspace.slug;
            workspace
                .providers
                .iter()
                .map(move |provider| (slug.clone(), provider.id.clone()))
        });
        Ok(Self {
            declared: catalog(config, &calls)?,
            ids: ids.collect(),
            calls,
        })
    }

    fn is_declared(&self, provider: &StoredProvider) -> bool {
        let id = (provider.workspace.clone(), provider.id.clone());
        self.ids.contains(&id)
    }

    fn open(&self, provider: &StoredProvider) -> Result<ProviderModels> {
        workspace_models(&config_of(provider)?, &self.calls)
    }
}

impl CatalogBuilder for Models {
    fn check(&self, provider: &StoredProvider) -> runloom_ports::error::Result<()> {
        if self.is_declared(provider) {
            let message = format!(
                "The provider `{}` is declared by the server's configuration file; change it there.",
                provider.id
            );
            return Err(Error::Conflict { message });
        }
        self.open(provider)
            .map(drop)
            .map_err(|error| Error::invalid("", format!("{error:#}")))
    }

    fn build(&self, stored: &[StoredProvider]) -> Catalog {
        let mut catalog = self.declared.clone();
        for provider in stored.iter().filter(|stored| !self.is_declared(stored)) {
            match self.open(provider) {
                Ok(opened) => {
                    let workspace = catalog.workspaces.entry(provider.workspace.clone());
                    let workspace = workspace.or_default();
                    workspace.models.extend(opened.listed);
                    workspace.unlisted.extend(opened.unlisted);
                    // The configuration has precedence, then the first provider that names a model.
                    workspace.default = workspace.default.take().or(default_of(provider));
                }
                Err(error) => tracing::warn!(
                    workspace = provider.workspace,
                    provider = provider.id,
                    error = format!("{error:#}"),
                    "stored provider cannot be opened"
                ),
            }
        }
        catalog
    }
}

fn default_of(provider: &StoredProvider) -> Option<String> {
    let models = &provider.definition.models;
    let model = models.iter().find(|model| model.default)?;
    Some(CatalogModel::workspace_id(&provider.id, &model.id))
}

/// A stored provider in the form of the configuration.
fn config_of(provider: &StoredProvider) -> Result<ProviderConfig> {
    let definition = &provider.definition;
    let model = |model: &ModelDefinition| ModelConfig {
        id: model.id.clone(),
        label: model.label.clone(),
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        reasoning: model.reasoning,
        pricing: model.pricing.map(|price| PricingConfig {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
        }),
    };
    Ok(ProviderConfig {
        id: provider.id.clone(),
        kind: definition.kind,
        base_url: definition.base_url.clone(),
        api_key_env: None,
        api_key: definition
            .api_key
            .as_ref()
            .map(|key| Secret::new(key.as_str())),
        headers: definition.headers.clone(),
        proxy: definition.proxy.clone(),
        models: definition.models.iter().map(model).collect(),
        allow_unlisted_models: definition.allow_unlisted_models.unwrap_or(true),
        lists_models: false,
        extra: definition.options.clone(),
    })
}

fn catalog(config: &Config, calls: &Calls) -> Result<Catalog> {
    let mut platform = Vec::new();
    if config.platform.demo == Some(true) {
        platform.push(demo(DEMO, calls)?);
        platform.push(demo(DEMO_SPARE, calls)?);
    }
    for provider in &config.platform.providers {
        platform.extend(models_of(provider, calls, Source::PlatformOffering)?);
    }
    let mut workspaces = HashMap::new();
    for workspace in &config.workspaces {
        let mut models = WorkspaceModels {
            default: workspace.default_model.clone(),
            ..WorkspaceModels::default()
        };
        for provider in &workspace.providers {
            let place = || format!("workspace {}, provider {}", workspace.slug, provider.id);
            let opened = workspace_models(provider, calls).with_context(place)?;
            models.models.extend(opened.listed);
            models.unlisted.extend(opened.unlisted);
        }
        workspaces.insert(workspace.slug.clone(), models);
    }
    Ok(Catalog {
        platform,
        workspaces,
    })
}

fn demo(name: &str, calls: &Calls) -> Result<Arc<CatalogModel>> {
    let provider = ProviderConfig::demo(DEMO);
    let settings = settings_of(&provider, calls);
    let model = ModelConfig::named(name);
    open(&provider, &settings, &model, Source::PlatformOffering)
}

/// What a workspace's provider adds to the catalog.
struct ProviderModels {
    listed: Vec<Arc<CatalogModel>>,
    unlisted: Option<Arc<dyn UnlistedModels>>,
}

fn workspace_models(provider: &ProviderConfig, calls: &Calls) -> Result<ProviderModels> {
    let unlisted = provider.allow_unlisted_models && !lacks_key(provider);
    Ok(ProviderModels {
        listed: models_of(provider, calls, Source::WorkspaceProvider)?,
        unlisted: unlisted.then(|| {
            Arc::new(Unlisted {
                provider: provider.clone(),
                settings: settings_of(provider, calls),
            }) as Arc<dyn UnlistedModels>
        }),
    })
}

/// Opens the models of a provider that its configuration does not list.
#[derive(Debug)]
struct Unlisted {
    provider: ProviderConfig,
    settings: ProviderSettings,
}

impl UnlistedModels for Unlisted {
    fn provider_id(&self) -> &str {
        &self.provider.id
    }

    fn open(&self, vendor_model_id: &str) -> runloom_ports::error::Result<Arc<CatalogModel>> {
        let refused = |message| Error::InvalidModel {
            message,
            candidates: Vec::new(),
        };
        if !is_vendor_model_id(vendor_model_id) {
            return Err(refused(format!(
                "The model of provider `{}` must be 1 to {VENDOR_MODEL_ID_MAX_BYTES} letters, digits or -._:/@+, \
                 without empty or dotted path segments.",
                self.provider.id
            )));
        }
        let model = ModelConfig::named(vendor_model_id);
        open(
            &self.provider,
            &self.settings,
            &model,
            Source::WorkspaceProvider,
        )
        .map_err(|error| refused(format!("Provider `{}`: {error:#}", self.provider.id)))
    }
}

/// Whether a client may name this vendor model. Some adapters send the name in the path of the URL, so that it must
/// not lead to another one.
fn is_vendor_model_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@+".contains(&byte);
    let is_segment = |segment: &str| !segment.bytes().all(|byte| byte == b'.');
    id.len() <= VENDOR_MODEL_ID_MAX_BYTES && id.bytes().all(plain) && id.split('/').all(is_segment)
}

fn lacks_key(provider: &ProviderConfig) -> bool {
    provider.api_key_env.is_some() && provider.api_key.is_none()
}

fn models_of(
    provider: &ProviderConfig,
    calls: &Calls,
    source: Source,
) -> Result<Vec<Arc<CatalogModel>>> {
    if let (Some(variable), None) = (&provider.api_key_env, &provider.api_key) {
        // A missing key disables its models only; `config check` and `doctor` warn about it.
        tracing::warn!(provider = %provider.id, "{variable} is not set: its models are not offered");
        return Ok(Vec::new());
    }
    let settings = settings_of(provider, calls);
    provider
        .models
        .iter()
        .map(|model| open(provider, &settings, model, source))
        .collect()
}

fn open(
    provider: &ProviderConfig,
    settings: &ProviderSettings,
    model: &ModelConfig,
    source: Source,
) -> Result<Arc<CatalogModel>> {
    let kind = provider.kind.as_str();
    let adapter = runloom_models::open(
        provider.kind,
        settings,
        &ModelSettings {
            vendor_model_id: model.id.clone(),
            reasoning: model.reasoning,
            max_output_tokens: model.max_output_tokens,
            context_window: model.context_window,
        },
    )
    .with_context(|| format!("model {}", model.id))?;
    let id = match source {
        Source::PlatformOffering => CatalogModel::platform_id(&model.id),
        Source::WorkspaceProvider => CatalogModel::workspace_id(&provider.id, &model.id),
    };
    Ok(Arc::new(CatalogModel {
        id,
        label: model.label.clone().unwrap_or_else(|| model.id.clone()),
        provider_id: provider.id.clone(),
        provider: kind.to_owned(),
        vendor_model_id: model.id.clone(),
        source,
        context_window: model.context_window,
        pricing: model.pricing.map(|pricing| Pricing {
            input_per_1m_usd: pricing.input,
            output_per_1m_usd: pricing.output,
            cache_read_per_1m_usd: pricing.cache_read,
        }),
        reasoning: adapter.capabilities().reasoning,
        max_output_tokens: model.max_output_tokens,
        model: adapter,
    }))
}

/// The settings with which a provider lists its models.
pub(super) fn listing_settings(provider: &ProviderConfig) -> ProviderSettings {
    settings_of(provider, &Calls::default())
}

fn settings_of(provider: &ProviderConfig, calls: &Calls) -> ProviderSettings {
    ProviderSettings {
        id: provider.id.clone(),
        base_url: provider.base_url.clone(),
        api_key: provider.api_key.clone(),
        headers: provider.headers.clone(),
        proxy: provider.proxy.clone(),
        timeouts: calls.timeouts,
        extra: provider.extra.clone(),
        recorder: calls.recorder.clone(),
    }
}
