//! Workspaces and what they declare: keys, providers, agents, tools, OAuth apps.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::sections::is_web_url;
use super::table::Table;
use super::types::{
    AgentConfig, ApiKeyConfig, KeyUsage, ModelConfig, OauthAppConfig, PlatformConfig,
    PricingConfig, ProviderConfig, ProviderKind, Secret, ToolConfig, WorkspaceConfig,
};

/// Every scope of the protocol.
const SCOPES: [&str; 23] = [
    "mantyx.identity:read",
    "agents:read",
    "agents:write",
    "agents:invoke",
    "sessions:read",
    "sessions:write",
    "runs:read",
    "runs:write",
    "models:read",
    "tools:read",
    "tools:write",
    "schedules:read",
    "schedules:write",
    "inbounds:read",
    "inbounds:write",
    "plugins:read",
    "hive:read",
    "hive:write",
    "feedback:read",
    "feedback:write",
    "a2a:discovery",
    "a2a:invoke",
    "mcp:connect",
];

pub(super) fn read(tables: Vec<Table<'_>>, platform: &PlatformConfig) -> Vec<WorkspaceConfig> {
    let mut slugs = BTreeSet::new();
    let mut keys = BTreeSet::new();
    tables
        .into_iter()
        .filter_map(|table| workspace(table, platform, &mut slugs, &mut keys))
        .collect()
}

fn workspace(
    table: Table<'_>,
    platform: &PlatformConfig,
    slugs: &mut BTreeSet<String>,
    keys: &mut BTreeSet<String>,
) -> Option<WorkspaceConfig> {
    let slug = slug(&table, slugs);
    let name = table
        .text("name")
        .or_else(|| slug.clone())
        .unwrap_or_default();
    let providers = providers(&table);
    let default_model = table.text("default_model");
    if let Some(model) = &default_model {
        check_model(&table, "default_model", model, &providers, platform);
    }
    let api_keys: Vec<_> = table
        .tables("api_keys")
        .into_iter()
        .filter_map(api_key)
        .collect();
    for key in &api_keys {
        if !keys.insert(key.key.expose().to_owned()) {
            table.invalid(
                "api_keys",
                format!("the key of `{}` is used twice in this file", key.name),
            );
        }
    }
    let mut agent_slugs = BTreeSet::new();
    let agents: Vec<_> = table
        .tables("agents")
        .into_iter()
        .filter_map(|agent| self::agent(agent, &mut agent_slugs, &providers, platform))
        .collect();
    let mut tool_slugs = BTreeSet::new();
    let tools: Vec<_> = table
        .tables("tools")
        .into_iter()
        .filter_map(|tool| self::tool(tool, &mut tool_slugs))
        .collect();
    let oauth_apps: Vec<_> = table
        .tables("oauth_apps")
        .into_iter()
        .filter_map(oauth_app)
        .collect();
    for (key, count) in [
        ("agents", agents.len()),
        ("tools", tools.len()),
        ("oauth_apps", oauth_apps.len()),
    ] {
        if count > 0 {
            table.warn(key, "checked, but not served by this version yet");
        }
    }
    table.finish();
    Some(WorkspaceConfig {
        slug: slug?,
        name,
        default_model,
        api_keys,
        providers,
        agents,
        tools,
        oauth_apps,
    })
}

/// A slug that is well formed and new.
fn slug(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<String> {
    let slug = table.required("slug")?;
    if !is_slug(&slug) {
        table.invalid(
            "slug",
            format!("`{slug}` must be 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit"),
        );
    } else if !seen.insert(slug.clone()) {
        table.invalid("slug", format!("`{slug}` is used twice"));
    }
    Some(slug)
}

fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

fn api_key(table: Table<'_>) -> Option<ApiKeyConfig> {
    let name = table.text("name").unwrap_or_else(|| "key".to_owned());
    let variable = table.required("key_env");
    let (_, key) = table.secret("key_env", None);
    match (&variable, &key) {
        (Some(variable), None) => {
            table.invalid(
                "key_env",
                format!("the environment variable {variable} (or {variable}_FILE) is not set"),
            );
        }
        (_, Some(key)) => check_key(&table, key),
        _ => {}
    }
    let usage = table.one_of(
        "usage",
        &[
            ("developer_api", KeyUsage::DeveloperApi),
            ("a2a", KeyUsage::A2a),
            ("mcp", KeyUsage::Mcp),
        ],
    );
    let agent_ids = table.texts("agent_ids");
    let runs_per_minute = table.integer("runs_per_minute", 1..=u64::from(u32::MAX));
    table.finish();
    Some(ApiKeyConfig {
        name,
        key: key?,
        usage: usage.unwrap_or(KeyUsage::DeveloperApi),
        agent_ids,
        runs_per_minute: runs_per_minute.and_then(|limit| u32::try_from(limit).ok()),
    })
}

/// A key must be told apart from the other tokens by its prefix.
fn check_key(table: &Table<'_>, key: &Secret) {
    let text = key.expose();
    let other = ["mantyx_at_", "mantyx_rt_", "mantyx_oa_", "mantyx_oas_"];
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !text.starts_with("mantyx_") || other.iter().any(|prefix| text.starts_with(prefix)) || !plain
    {
        table.invalid("key_env", "the key must look like mantyx_…, without spaces (mantyx_at_, _rt_, _oa_ and _oas_ are OAuth's)");
    } else if text.len() < 24 {
        table.warn(
            "key_env",
            "the key is short enough to be guessed; make one with `runloom admin key create`",
        );
    }
}

/// `providers` of a workspace or of the platform.
pub(super) fn providers(table: &Table<'_>) -> Vec<ProviderConfig> {
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
        .then(|| table.one_of("kind", ProviderKind::ALL))
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
            format!(
                "the environment variable {variable} is not set: calls of this provider will fail"
            ),
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
fn check_model(
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

fn agent(
    table: Table<'_>,
    seen: &mut BTreeSet<String>,
    providers: &[ProviderConfig],
    platform: &PlatformConfig,
) -> Option<AgentConfig> {
    let slug = slug(&table, seen);
    let system_prompt = table.required("system_prompt");
    let model = table.text("model");
    if let Some(model) = &model {
        check_model(&table, "model", model, providers, platform);
    }
    for (index, tool) in table.tables("tools").into_iter().enumerate() {
        if tool.required("kind").is_none() {
            table.invalid("tools", format!("entry {index} needs a kind: mantyx, mantyx_plugin, local, a2a, a2a_local, mcp or mcp_local"));
        }
    }
    let extra = table.rest();
    Some(AgentConfig {
        slug: slug?,
        system_prompt: system_prompt?,
        model,
        extra,
    })
}

fn tool(table: Table<'_>, seen: &mut BTreeSet<String>) -> Option<ToolConfig> {
    let slug = slug(&table, seen);
    table.required("type");
    let kind = table
        .has("type")
        .then(|| {
            table.one_of(
                "type",
                &[("http", "http"), ("code", "code"), ("plugin", "plugin")],
            )
        })
        .flatten();
    let extra = table.rest();
    Some(ToolConfig {
        slug: slug?,
        kind: kind?.to_owned(),
        extra,
    })
}

fn oauth_app(table: Table<'_>) -> Option<OauthAppConfig> {
    let client_id = table.required("client_id");
    if client_id
        .as_ref()
        .is_some_and(|id| !id.starts_with("mantyx_oa_"))
    {
        table.invalid("client_id", "must start with mantyx_oa_");
    }
    table.text("name");
    let (variable, client_secret) = table.secret("client_secret_env", None);
    if let (Some(variable), None) = (variable, &client_secret) {
        table.invalid(
            "client_secret_env",
            format!("the environment variable {variable} (or {variable}_FILE) is not set"),
        );
    }
    let public = table
        .one_of("visibility", &[("private", false), ("public", true)])
        .unwrap_or(false);
    let redirect_uris = table.texts("redirect_uris");
    for uri in redirect_uris
        .iter()
        .filter(|uri| !uri.contains(':') || uri.contains('#'))
    {
        table.invalid(
            "redirect_uris",
            format!("`{uri}` must be a whole URI without a fragment"),
        );
    }
    let scopes = table.texts("scopes");
    for scope in scopes
        .iter()
        .filter(|scope| !SCOPES.contains(&scope.as_str()))
    {
        table.invalid(
            "scopes",
            format!(
                "`{scope}` is not a scope; scopes are: {}",
                SCOPES.join(", ")
            ),
        );
    }
    let allow_client_credentials = table.boolean("allow_client_credentials").unwrap_or(false);
    if public && allow_client_credentials {
        table.invalid(
            "allow_client_credentials",
            "only private apps may act for themselves",
        );
    }
    table.finish();
    Some(OauthAppConfig {
        client_id: client_id?,
        client_secret,
        public,
        redirect_uris,
        scopes,
        allow_client_credentials,
    })
}
