//! Providers and their models, of a workspace or of the platform.

use std::collections::{BTreeMap, BTreeSet};

use runloom_protocol::definition::ProviderKind;
use serde_json::{Map, Value};

use super::sections::is_web_url;
use super::table::Table;
use super::types::{ModelConfig, PlatformConfig, PricingConfig, ProviderConfig, Secret};

/// `providers` of a workspace or of the platform.
pub(super) fn read(table: &Table<'_>) -> Vec<ProviderConfig> {
    let mut ids = BTreeSet::new();
    table
        .tables("providers")
        .into_iter()
        .filter_map(|provider| self::provider(provider, &mut ids))
        .collect()
}

fn provider(table: Table<'_>, ids: &mut BTreeSet<String>) -> Option<ProviderConfig> {
    let id = table.required("id");
    if let Some(id) = &id {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !id.bytes().all(plain) || id.len() > 64 {
            table.invalid(
                "id",
                format!("`{id}` must be 1 to 64 letters, digits, -, _ or ."),
            );
        } else if !ids.insert(id.clone()) {
            table.invalid("id", format!("`{id}` is used twice"));
        }
    }
    table.required("kind");
    let kind = table
        .has("kind")
        .then(|| table.one_of("kind", &kinds()))
        .flatten();
    let base_url = table.text("base_url");
    if let Some(url) = base_url.as_deref().filter(|url| !is_web_url(url)) {
        table.invalid(
            "base_url",
            format!("`{url}` must start with http:// or https://"),
        );
    }
    let (api_key_env, api_key) = table.secret("api_key_env", None);
    if let (Some(variable), None) = (&api_key_env, &api_key) {
        table.warn(
            "api_key_env",
            format!("the environment variable {variable} is not set: its models are not offered"),
        );
    }
    let headers = headers(&table);
    let proxy = table.text("proxy");
    let models = models(&table);
    let environment = table.context.environment;
    let origin = table.origin.clone();
    let (context, path) = (table.context, table.path.clone());
    let extra = resolve(table.rest(), |variable| {
        match environment.secret(variable) {
            Ok(secret) => secret,
            Err(message) => {
                context.problem(origin.clone(), &path, message);
                None
            }
        }
    });
    Some(ProviderConfig {
        id: id?,
        kind: kind?,
        base_url,
        api_key_env,
        api_key,
        headers,
        proxy,
        models,
        extra,
    })
}

/// Replaces `x_env = "VAR"` by `x = "value of VAR"`; a variable that is not set leaves the key out.
fn resolve(
    extra: Map<String, Value>,
    lookup: impl Fn(&str) -> Option<Secret>,
) -> Map<String, Value> {
    extra
        .into_iter()
        .filter_map(|(key, value)| match (key.strip_suffix("_env"), value) {
            (Some(name), Value::String(variable)) => {
                lookup(&variable).map(|secret| (name.to_owned(), secret.expose().into()))
            }
            (_, value) => Some((key, value)),
        })
        .collect()
}

fn headers(table: &Table<'_>) -> BTreeMap<String, String> {
    let rest = table.table("headers").map(Table::rest).unwrap_or_default();
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Some((name, text)),
        _ => {
            table.invalid("headers", format!("the value of `{name}` must be a string"));
            None
        }
    };
    rest.into_iter().filter_map(text).collect()
}

fn models(table: &Table<'_>) -> Vec<ModelConfig> {
    let mut ids = BTreeSet::new();
    let mut models = Vec::new();
    for model in table.tables("models") {
        let id = model.required("id");
        if let Some(id) = id.as_ref().filter(|id| !ids.insert((*id).clone())) {
            model.invalid("id", format!("`{id}` is used twice"));
        }
        let positive = 1..=u64::from(u32::MAX);
        let read = ModelConfig {
            id: id.clone().unwrap_or_default(),
            label: model.text("label"),
            context_window: model.integer("context_window", positive.clone()),
            max_output_tokens: model.integer("max_output_tokens", positive),
            reasoning: model.boolean("reasoning"),
            pricing: model.table("pricing").and_then(pricing),
        };
        model.finish();
        models.extend(id.map(|_| read));
    }
    models
}

fn pricing(table: Table<'_>) -> Option<PricingConfig> {
    let (input, output, cache_read) = (
        table.number("input"),
        table.number("output"),
        table.number("cache_read"),
    );
    for key in ["input", "output"] {
        if !table.has(key) {
            table.invalid(
                key,
                "is missing: a price needs both, in US dollars per million tokens",
            );
        }
    }
    table.finish();
    Some(PricingConfig {
        input: input?,
        output: output?,
        cache_read,
    })
}

/// `<provider id>/<model id>` of the workspace or the platform, or a catalog id.
pub(super) fn check_model(
    table: &Table<'_>,
    key: &str,
    name: &str,
    own: &[ProviderConfig],
    platform: &PlatformConfig,
) {
    if name.starts_with("platform:") || name.starts_with("provider:") {
        return;
    }
    let Some((id, model)) = name.split_once('/') else {
        table.invalid(
            key,
            format!(
                "`{name}` must be <provider id>/<model id>, or a catalog id like platform:demo"
            ),
        );
        return;
    };
    let Some(provider) = own
        .iter()
        .chain(&platform.providers)
        .find(|provider| provider.id == id)
    else {
        let ids: Vec<&str> = own
            .iter()
            .chain(&platform.providers)
            .map(|provider| provider.id.as_str())
            .collect();
        let known = if ids.is_empty() {
            "none".to_owned()
        } else {
            ids.join(", ")
        };
        table.invalid(
            key,
            format!("there is no provider `{id}`; there are: {known}"),
        );
        return;
    };
    if !provider.models.iter().any(|known| known.id == model) {
        let ids: Vec<&str> = provider
            .models
            .iter()
            .map(|model| model.id.as_str())
            .collect();
        table.invalid(
            key,
            format!(
                "provider `{id}` lists no model `{model}`; it lists: {}",
                ids.join(", ")
            ),
        );
    }
}

/// Every provider kind with its word.
fn kinds() -> Vec<(&'static str, ProviderKind)> {
    let kinds = ProviderKind::ALL.iter();
    kinds.map(|kind| (kind.as_str(), *kind)).collect()
}
