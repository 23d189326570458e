//! Workspaces and what they declare: keys, providers, OAuth apps; `documents` has the rest.

use std::collections::BTreeSet;

use runloom_protocol::scope::{Scope, ScopeSet};
use runloom_service::oauth::redirect_problem;

use super::documents;
use super::providers::{self, check_model};
use super::table::Table;
use super::types::{
    ApiKeyConfig, KeyUsage, OauthAppConfig, PlatformConfig, Secret, WorkspaceConfig,
};

pub(super) fn read(tables: Vec<Table<'_>>, platform: &PlatformConfig) -> Vec<WorkspaceConfig> {
    let mut slugs = BTreeSet::new();
    let mut keys = BTreeSet::new();
    let mut apps = BTreeSet::new();
    tables
        .into_iter()
        .filter_map(|table| workspace(table, platform, &mut slugs, (&mut keys, &mut apps)))
        .collect()
}

fn workspace(
    table: Table<'_>,
    platform: &PlatformConfig,
    slugs: &mut BTreeSet<String>,
    (keys, apps): (&mut BTreeSet<String>, &mut BTreeSet<String>),
) -> Option<WorkspaceConfig> {
    let slug = slug(&table, slugs);
    let name = table
        .text("name")
        .or_else(|| slug.clone())
        .unwrap_or_default();
    let providers = providers::read(&table);
    let monthly_budget_usd = budget(&table);
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
    let agents = documents::agents(&table, &providers, platform);
    let tools = documents::read(&table, "tools");
    let plugins = documents::read(&table, "plugins");
    let external_agents = documents::read(&table, "external_agents");
    let secrets = documents::secrets(&table);
    let declared = [&tools, &external_agents].map(|all| all.iter().map(|one| one.slug.as_str()));
    let declared: BTreeSet<&str> = declared.into_iter().flatten().collect();
    documents::warn_of_unknown_tools(&table, &agents, &declared);
    let kept = [&agents, &tools, &plugins, &external_agents];
    documents::warn_of_unknown_secrets(&table, &kept, &secrets);
    let oauth_apps: Vec<_> = table
        .tables("oauth_apps")
        .into_iter()
        .filter_map(oauth_app)
        .collect();
    for app in &oauth_apps {
        if !apps.insert(app.client_id.clone()) {
            let message = format!(
                "the client_id `{}` is used twice in this file",
                app.client_id
            );
            table.invalid("oauth_apps", message);
        }
    }
    table.finish();
    Some(WorkspaceConfig {
        slug: slug?,
        name,
        default_model,
        monthly_budget_usd,
        api_keys,
        providers,
        secrets,
        agents,
        tools,
        plugins,
        external_agents,
        oauth_apps,
    })
}

/// A slug that is well formed and new.
pub(super) fn slug(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<String> {
    let slug = table.required("slug")?;
    check_slug(table, &slug, seen);
    Some(slug)
}

/// Complains about a slug that is not well formed, or not new.
pub(super) fn check_slug(table: &Table<'_>, slug: &str, seen: &mut BTreeSet<String>) {
    if !is_slug(slug) {
        table.invalid(
            "slug",
            format!("`{slug}` must be 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit"),
        );
    } else if !seen.insert(slug.to_owned()) {
        table.invalid("slug", format!("`{slug}` is used twice"));
    }
}

fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// A monthly budget. Zero is one: it refuses every model that has a price.
fn budget(table: &Table<'_>) -> Option<f64> {
    const KEY: &str = "monthly_budget_usd";
    let usd = table.number(KEY)?;
    if usd.is_finite() && (0.0..=1e9).contains(&usd) {
        return Some(usd);
    }
    table.invalid(
        KEY,
        "must be a number of US dollars from 0 to 1,000,000,000",
    );
    None
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
    let monthly_budget_usd = budget(&table);
    table.finish();
    Some(ApiKeyConfig {
        name,
        key: key?,
        usage: usage.unwrap_or(KeyUsage::DeveloperApi),
        agent_ids,
        runs_per_minute: runs_per_minute.and_then(|limit| u32::try_from(limit).ok()),
        monthly_budget_usd,
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

fn oauth_app(table: Table<'_>) -> Option<OauthAppConfig> {
    let client_id = table.required("client_id");
    if client_id
        .as_ref()
        .is_some_and(|id| !id.starts_with("mantyx_oa_"))
    {
        table.invalid("client_id", "must start with mantyx_oa_");
    }
    let name = table.text("name").unwrap_or_default();
    let variable = table.required("client_secret_env");
    let (_, client_secret) = table.secret("client_secret_env", None);
    if let (Some(variable), None) = (variable, &client_secret) {
        table.invalid(
            "client_secret_env",
            format!("the environment variable {variable} (or {variable}_FILE) is not set"),
        );
    }
    if client_secret
        .as_ref()
        .is_some_and(|secret| secret.expose().len() < 24)
    {
        let message =
            "the secret is short enough to be guessed; `openssl rand -hex 32` makes a good one";
        table.warn("client_secret_env", message);
    }
    let public = table
        .one_of("visibility", &[("private", false), ("public", true)])
        .unwrap_or(false);
    let redirect_uris = table.texts("redirect_uris");
    for uri in &redirect_uris {
        if let Some(problem) = redirect_problem(uri) {
            table.invalid("redirect_uris", format!("`{uri}` {problem}"));
        }
    }
    let scopes = table.texts("scopes");
    if let Err(word) = ScopeSet::of_words(scopes.iter().map(String::as_str)) {
        let known = ScopeSet::from_iter(Scope::ALL.iter().copied()).to_string();
        let known = known.replace(' ', ", ");
        let message = format!("`{word}` is not a scope; scopes are: {known}");
        table.invalid("scopes", message);
    }
    if scopes.is_empty() {
        table.invalid("scopes", "must name one scope at least");
    }
    let allow_client_credentials = table.boolean("allow_client_credentials").unwrap_or(false);
    if public && allow_client_credentials {
        table.invalid(
            "allow_client_credentials",
            "only private apps may act for themselves",
        );
    }
    if redirect_uris.is_empty() && !allow_client_credentials {
        let message = "must name one URI at least, unless allow_client_credentials is true";
        table.invalid("redirect_uris", message);
    }
    table.finish();
    Some(OauthAppConfig {
        client_id: client_id?,
        name,
        client_secret: client_secret?,
        public,
        redirect_uris,
        scopes,
        allow_client_credentials,
    })
}
