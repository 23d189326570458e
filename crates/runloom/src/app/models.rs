//! The catalog, from the configuration: each model opened once and shared by all runs.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use runloom_core::catalog::{Catalog, CatalogModel, Pricing, Source, WorkspaceModels};
use runloom_models::{ModelSettings, ProviderSettings, Secret, Timeouts};

use crate::config::{Config, ModelConfig, ProviderConfig};

/// Name of the offering that needs no key.
const DEMO: &str = "demo";

/// Opens every model that the configuration names.
pub(super) fn catalog(config: &Config) -> Result<Catalog> {
    let timeouts = Timeouts {
        first_byte_ms: config.runs.provider_first_byte_ms,
        idle_ms: config.runs.provider_idle_ms,
        total_ms: config.runs.provider_timeout_ms,
        ..Timeouts::default()
    };
    let mut platform = Vec::new();
    if config.platform.demo == Some(true) {
        platform.push(demo(timeouts)?);
    }
    for provider in &config.platform.providers {
        platform.extend(models_of(provider, timeouts, Source::PlatformOffering)?);
    }
    let mut workspaces = HashMap::new();
    for workspace in &config.workspaces {
        let mut models = Vec::new();
        for provider in &workspace.providers {
            let place = || format!("workspace {}, provider {}", workspace.slug, provider.id);
            models.extend(
                models_of(provider, timeouts, Source::WorkspaceProvider).with_context(place)?,
            );
        }
        workspaces.insert(
            workspace.slug.clone(),
            WorkspaceModels {
                models,
                default: workspace.default_model.clone(),
            },
        );
    }
    Ok(Catalog {
        platform,
        workspaces,
    })
}

fn demo(timeouts: Timeouts) -> Result<Arc<CatalogModel>> {
    let provider = ProviderConfig::demo(DEMO);
    let settings = settings_of(&provider, timeouts);
    let model = ModelConfig::named(DEMO);
    open(&provider, &settings, &model, Source::PlatformOffering)
}

fn models_of(
    provider: &ProviderConfig,
    timeouts: Timeouts,
    source: Source,
) -> Result<Vec<Arc<CatalogModel>>> {
    if let (Some(variable), None) = (&provider.api_key_env, &provider.api_key) {
        // A server with one key missing is more use than none; `config check` and `doctor` warn as well.
        tracing::warn!(provider = %provider.id, "{variable} is not set: its models are not offered");
        return Ok(Vec::new());
    }
    let settings = settings_of(provider, timeouts);
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
        kind,
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

fn settings_of(provider: &ProviderConfig, timeouts: Timeouts) -> ProviderSettings {
    ProviderSettings {
        id: provider.id.clone(),
        base_url: provider.base_url.clone(),
        api_key: provider
            .api_key
            .as_ref()
            .map(|key| Secret::new(key.expose())),
        headers: provider.headers.clone(),
        proxy: provider.proxy.clone(),
        timeouts,
        extra: provider.extra.clone(),
    }
}
