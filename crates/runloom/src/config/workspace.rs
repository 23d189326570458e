//! `[[workspaces]]`.

use serde_json::Value;
use std::collections::BTreeSet;

use super::api_key::{self, ApiKeyConfig};
use super::definition::{self, DeclaredNames, DefinitionConfig, DefinitionKind, SecretConfig};
use super::oauth_app::{self, OauthAppConfig};
use super::platform::PlatformConfig;
use super::project;
use super::provider::{self, ModelNames, ProviderConfig};
use super::table_reader::Table;
use super::toolset::{self, ToolsetConfig};

/// `[[workspaces]]`.
#[derive(Debug, Clone)]
pub struct WorkspaceConfig {
    /// Its name in URLs.
    pub slug: String,
    /// Its name for display.
    pub name: String,
    /// `<provider id>/<model id>` or a catalog id.
    pub default_model: Option<String>,
    /// Maximum cost of its runs in a month (UTC), in US dollars.
    pub monthly_budget_usd: Option<f64>,
    /// Its API keys.
    pub api_keys: Vec<ApiKeyConfig>,
    /// Its providers.
    pub providers: Vec<ProviderConfig>,
    /// Its secrets.
    pub secrets: Vec<SecretConfig>,
    /// Its agents.
    pub agents: Vec<DefinitionConfig>,
    /// Its tools.
    pub tools: Vec<DefinitionConfig>,
    /// Its plugins.
    pub plugins: Vec<DefinitionConfig>,
    /// Its toolsets on the network.
    pub toolsets: Vec<DefinitionConfig>,
    /// Its toolsets that are processes.
    pub process_toolsets: Vec<ToolsetConfig>,
    /// Its external agents.
    pub external_agents: Vec<DefinitionConfig>,
    /// Its OAuth apps.
    pub oauth_apps: Vec<OauthAppConfig>,
    /// Its project, as the admin API takes it.
    pub project: Option<Value>,
}

/// Values that must differ between all workspaces of the file.
#[derive(Default)]
struct SeenValues {
    slugs: BTreeSet<String>,
    keys: BTreeSet<String>,
    client_ids: BTreeSet<String>,
}

pub(super) fn read_all(root: &Table<'_>, platform: &PlatformConfig) -> Vec<WorkspaceConfig> {
    let mut seen = SeenValues::default();
    root.tables("workspaces", |table| read(table, platform, &mut seen))
}

fn read(
    table: &Table<'_>,
    platform: &PlatformConfig,
    seen: &mut SeenValues,
) -> Option<WorkspaceConfig> {
    let slug = slug(table, &mut seen.slugs);
    let name = table.text("name").or_else(|| slug.clone());
    let providers = provider::read_all(table);
    let models = ModelNames {
        workspace: &providers,
        platform: &platform.providers,
    };
    let default_model = table.text("default_model");
    if let Some(model) = &default_model {
        models.check(table, "default_model", model);
    }
    let monthly_budget_usd = monthly_budget(table);
    let api_keys = api_keys(table, seen);
    let agents = definition::agents(table, &models);
    let tools = definition::read_all(table, DefinitionKind::Tool);
    let plugins = definition::read_all(table, DefinitionKind::Plugin);
    let external_agents = definition::read_all(table, DefinitionKind::ExternalAgent);
    let toolsets = toolset::read_all(table);
    let secrets = definition::secrets(table);
    let declared = DeclaredNames::new(tools.iter().chain(&external_agents), &secrets);
    declared.warn_about_tools(table, &agents);
    let all = [
        &agents,
        &tools,
        &plugins,
        &external_agents,
        &toolsets.definitions,
    ];
    declared.warn_about_secrets(table, all.into_iter().flatten());
    let oauth_apps = oauth_apps(table, seen);
    let project = project::read_project(table);
    table.finish();
    Some(WorkspaceConfig {
        slug: slug?,
        name: name.unwrap_or_default(),
        default_model,
        monthly_budget_usd,
        api_keys,
        providers,
        secrets,
        agents,
        tools,
        plugins,
        toolsets: toolsets.definitions,
        process_toolsets: toolsets.processes,
        external_agents,
        oauth_apps,
        project,
    })
}

fn api_keys(table: &Table<'_>, seen: &mut SeenValues) -> Vec<ApiKeyConfig> {
    let keys = table.tables("api_keys", api_key::read);
    for key in &keys {
        if !seen.keys.insert(key.key.expose().to_owned()) {
            table.refuse(
                "api_keys",
                format_args!("the key of `{}` is used twice in this file", key.name),
            );
        }
    }
    keys
}

fn oauth_apps(table: &Table<'_>, seen: &mut SeenValues) -> Vec<OauthAppConfig> {
    let apps = table.tables("oauth_apps", oauth_app::read);
    for app in &apps {
        let id = &app.client_id;
        if !seen.client_ids.insert(id.clone()) {
            table.refuse(
                "oauth_apps",
                format_args!("the client_id `{id}` is used twice in this file"),
            );
        }
    }
    apps
}

/// A slug that is well formed and not used before.
pub(super) fn slug(table: &Table<'_>, seen: &mut BTreeSet<String>) -> Option<String> {
    let slug = table.required("slug")?;
    check_slug(table, &slug, seen);
    Some(slug)
}

/// Refuses a slug that is not well formed, or used before.
pub(super) fn check_slug(table: &Table<'_>, slug: &str, seen: &mut BTreeSet<String>) {
    if !is_slug(slug) {
        table.refuse(
            "slug",
            format_args!(
                "`{slug}` must be 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit"
            ),
        );
    } else if !seen.insert(slug.to_owned()) {
        table.refuse("slug", format_args!("`{slug}` is used twice"));
    }
}

fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// `monthly_budget_usd`. A budget of zero refuses every model with a price.
pub(super) fn monthly_budget(table: &Table<'_>) -> Option<f64> {
    let wanted = "a number of US dollars from 0 to 1,000,000,000";
    table.number("monthly_budget_usd", wanted, |usd| {
        (0.0..=1e9).contains(&usd)
    })
}
