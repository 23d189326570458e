//! `[[workspaces.providers]]`, `[[platform.providers]]` and their models.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use runloom_models::can_list;
use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;
use serde_json::{Map, Value};

use super::server::is_web_url;
use super::table_reader::Table;

/// `[[workspaces.providers]]` and `[[platform.providers]]`.
#[derive(Clone)]
pub struct ProviderConfig {
    /// Its name in model ids.
    pub id: String,
    /// The API that it speaks.
    pub kind: ProviderKind,
    /// Its address; `None` = the vendor's own.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The key; `None` when no variable is named or it is not set.
    pub api_key: Option<Secret>,
    /// Sent with every call.
    pub headers: BTreeMap<String, String>,
    /// An HTTP or SOCKS proxy for this provider.
    pub proxy: Option<String>,
    /// Its models.
    pub models: Vec<ModelConfig>,
    /// Whether runs may name models that `models` does not list.
    pub allow_unlisted_models: bool,
    /// `models = "auto"`: the provider is asked for its models at the start.
    pub lists_models: bool,
    /// Keys that only its adapter knows. `x_env = "VAR"` is here as `x`, with the variable's value.
    pub extra: Map<String, Value>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and the adapter's keys may be credentials: only their names are shown.
        f.debug_struct("ProviderConfig")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .field("headers", &self.headers.keys())
            .field("models", &self.models)
            .field("extra", &self.extra.keys())
            .finish_non_exhaustive()
    }
}

impl ProviderConfig {
    /// The offline provider, with nothing to configure.
    #[must_use]
    pub fn demo(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            kind: ProviderKind::Demo,
            base_url: None,
            api_key_env: None,
            api_key: None,
            headers: BTreeMap::new(),
            proxy: None,
            models: Vec::new(),
            allow_unlisted_models: false,
            lists_models: false,
            extra: Map::new(),
        }
    }
}

/// One entry of a provider's `models`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The vendor's name for it.
    pub id: String,
    /// Its name for display; `None` = the id.
    pub label: Option<String>,
    /// Maximum tokens of a conversation.
    pub context_window: Option<u64>,
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Whether it reasons; `None` = the adapter decides by the name.
    pub reasoning: Option<bool>,
    /// Its price.
    pub pricing: Option<PricingConfig>,
}

impl ModelConfig {
    /// A model without any setting.
    #[must_use]
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            label: None,
            context_window: None,
            max_output_tokens: None,
            reasoning: None,
            pricing: None,
        }
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricingConfig {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from a cache.
    pub cache_read: Option<f64>,
}

/// `providers` of a workspace or of the platform.
pub(super) fn read_all(table: &Table<'_>) -> Vec<ProviderConfig> {
    let mut ids = BTreeSet::new();
    table.tables("providers", |provider| read(provider, &mut ids))
}

fn read(table: &Table<'_>, ids: &mut BTreeSet<String>) -> Option<ProviderConfig> {
    let id = table.required("id");
    if let Some(id) = &id {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !id.bytes().all(plain) || id.len() > 64 {
            table.refuse(
                "id",
                format_args!("`{id}` must be 1 to 64 letters, digits, -, _ or ."),
            );
        } else if !ids.insert(id.clone()) {
            table.refuse("id", format_args!("`{id}` is used twice"));
        }
    }
    let kind = table.required_keyword("kind");
    let base_url = table.text("base_url");
    if let Some(url) = base_url.as_deref().filter(|url| !is_web_url(url)) {
        table.refuse(
            "base_url",
            format_args!("`{url}` must start with http:// or https://"),
        );
    }
    refuse_keys_in_the_file(table);
    let api_key = table.secret("api_key_env");
    if let (Some(variable), None) = (&api_key.variable, &api_key.value) {
        table.warn(
            "api_key_env",
            format_args!(
                "the environment variable {variable} is not set: its models are not offered"
            ),
        );
    }
    let headers = table.table("headers");
    let headers = headers.map(|headers| headers.text_entries().collect());
    let proxy = table.text("proxy");
    let lists_models = lists_models(table, kind);
    let models = if lists_models {
        Vec::new()
    } else {
        models(table)
    };
    let allow_unlisted_models = table.boolean("allow_unlisted_models").unwrap_or(true);
    let extra = resolve_variables(table, table.other_keys());
    Some(ProviderConfig {
        id: id?,
        kind: kind?,
        base_url,
        api_key_env: api_key.variable,
        api_key: api_key.value,
        headers: headers.unwrap_or_default(),
        proxy,
        models,
        allow_unlisted_models,
        lists_models,
        extra,
    })
}

/// Refuses `api_key`, which would put a secret into the file.
fn refuse_keys_in_the_file(table: &Table<'_>) {
    if table.has("api_key") {
        table.text("api_key");
        table.refuse(
            "api_key",
            "keys are not written into this file: put the key into an environment variable and name it, like \
             api_key_env = \"OPENAI_API_KEY\"",
        );
    }
}

/// Whether `models` is `"auto"`.
fn lists_models(table: &Table<'_>, kind: Option<ProviderKind>) -> bool {
    if !table.object().get("models").is_some_and(Value::is_string) {
        return false;
    }
    match (table.text("models").as_deref(), kind) {
        (Some("auto"), Some(kind)) if !can_list(kind) => table.refuse(
            "models",
            format_args!(
                "providers of the kind `{}` do not list their models: name them, like [{{ id = \"…\" }}]",
                kind.as_str()
            ),
        ),
        (Some("auto"), _) | (None, _) => {}
        (Some(_), _) => table.refuse(
            "models",
            "must be \"auto\" (the provider's own list) or an array like [{ id = \"…\" }]",
        ),
    }
    true
}

/// Replaces `x_env = "VAR"` by `x = "value of VAR"`; an unset variable removes the key.
fn resolve_variables(table: &Table<'_>, keys: Map<String, Value>) -> Map<String, Value> {
    let resolve = |(key, value): (String, Value)| match (key.strip_suffix("_env"), value) {
        (Some(name), Value::String(variable)) => {
            let secret = table.lookup(&key, &variable)?;
            Some((name.to_owned(), secret.expose().into()))
        }
        (_, value) => Some((key, value)),
    };
    keys.into_iter().filter_map(resolve).collect()
}

fn models(table: &Table<'_>) -> Vec<ModelConfig> {
    let mut ids = BTreeSet::new();
    table.tables("models", |model| {
        let id = model.required("id");
        if let Some(id) = id.as_ref().filter(|id| !ids.insert((*id).clone())) {
            model.refuse("id", format_args!("`{id}` is used twice"));
        }
        let tokens = |key| model.integer(key, 1..=u64::from(u32::MAX));
        let read = ModelConfig {
            id: id.clone().unwrap_or_default(),
            label: model.text("label"),
            context_window: tokens("context_window"),
            max_output_tokens: tokens("max_output_tokens"),
            reasoning: model.boolean("reasoning"),
            pricing: model.table("pricing").and_then(|table| pricing(&table)),
        };
        model.finish();
        id.map(|_| read)
    })
}

fn pricing(table: &Table<'_>) -> Option<PricingConfig> {
    let price = |key| table.number(key, "a number that is not negative", |usd| usd >= 0.0);
    let (input, output, cache_read) = (price("input"), price("output"), price("cache_read"));
    for key in ["input", "output"] {
        if !table.has(key) {
            table.refuse(
                key,
                "is required: a price needs `input` and `output`, in US dollars per million tokens",
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

/// The models that a workspace can name.
pub(super) struct ModelNames<'a> {
    pub(super) workspace: &'a [ProviderConfig],
    pub(super) platform: &'a [ProviderConfig],
}

impl ModelNames<'_> {
    /// Refuses a name that is neither `<provider id>/<model id>` nor a catalog id.
    pub(super) fn check(&self, table: &Table<'_>, key: &str, name: &str) {
        if name.starts_with("platform:") || name.starts_with("provider:") {
            return;
        }
        let Some((id, model)) = name.split_once('/') else {
            table.refuse(
                key,
                format_args!(
                    "`{name}` must be <provider id>/<model id>, or a catalog id like platform:demo"
                ),
            );
            return;
        };
        let providers = || self.workspace.iter().chain(self.platform);
        let Some(provider) = providers().find(|provider| provider.id == id) else {
            let ids: Vec<&str> = providers().map(|provider| provider.id.as_str()).collect();
            let known = match ids.is_empty() {
                true => "no providers are declared".to_owned(),
                false => format!("declared providers: {}", ids.join(", ")),
            };
            table.refuse(key, format_args!("unknown provider `{id}`; {known}"));
            return;
        };
        let models = || provider.models.iter().map(|model| model.id.as_str());
        if !provider.lists_models && !models().any(|known| known == model) {
            let ids: Vec<&str> = models().collect();
            let known = ids.join(", ");
            table.refuse(
                key,
                format_args!("provider `{id}` lists no model `{model}`; it lists: {known}"),
            );
        }
    }
}
