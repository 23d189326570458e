//! Fills in the models of providers with `models = "auto"`.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use runloom_models::{ListError, ListedModel};

use super::models::listing_settings;
use crate::config::{Config, ModelConfig, ProviderConfig};

/// The outcome for one provider.
#[derive(Debug)]
pub(crate) struct ModelList {
    pub(crate) provider: String,
    /// How many models it lists.
    pub(crate) outcome: Result<usize, ListError>,
}

/// Asks every provider with `models = "auto"` for its models, all at once. A provider that does not answer offers no
/// models.
pub(crate) async fn fill(config: &mut Config) -> Vec<ModelList> {
    let of_workspaces = config.workspaces.iter_mut();
    let of_workspaces = of_workspaces.flat_map(|workspace| &mut workspace.providers);
    let providers = config.platform.providers.iter_mut().chain(of_workspaces);
    let lists = providers
        .filter(|provider| provider.lists_models && !lacks_key(provider))
        .map(fill_provider);
    let lists = join_all(lists).await;
    drop_duplicates(&mut config.platform.providers);
    lists
}

/// The same, with a log line for every provider that did not answer.
pub(crate) async fn fill_and_log(config: &mut Config) {
    for list in fill(config).await {
        match list.outcome {
            Ok(models) => {
                tracing::info!(provider = list.provider, models, "models listed");
            }
            Err(error) => tracing::warn!(
                provider = list.provider,
                %error,
                "models not listed; the provider offers none until a restart"
            ),
        }
    }
}

fn lacks_key(provider: &ProviderConfig) -> bool {
    provider.api_key_env.is_some() && provider.api_key.is_none()
}

async fn fill_provider(provider: &mut ProviderConfig) -> ModelList {
    let listed = runloom_models::list(provider.kind, &listing_settings(provider)).await;
    let outcome = listed.map(|mut models| {
        // The newest first, where the list says; else in its own order.
        models.sort_by_key(|model| std::cmp::Reverse(model.created));
        provider.models = models.into_iter().map(model_config).collect();
        provider.models.len()
    });
    ModelList {
        provider: provider.id.clone(),
        outcome,
    }
}

fn model_config(model: ListedModel) -> ModelConfig {
    ModelConfig {
        label: model.label,
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        ..ModelConfig::named(&model.id)
    }
}

/// Two platform models cannot have one id: the first provider has precedence.
fn drop_duplicates(providers: &mut [ProviderConfig]) {
    let mut seen = BTreeSet::from(["demo".to_owned(), "demo-spare".to_owned()]);
    let (listing, named): (Vec<_>, Vec<_>) = providers
        .iter_mut()
        .partition(|provider| provider.lists_models);
    for provider in named {
        seen.extend(provider.models.iter().map(|model| model.id.clone()));
    }
    for provider in listing {
        provider
            .models
            .retain(|model| seen.insert(model.id.clone()));
    }
}
