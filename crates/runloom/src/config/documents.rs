//! What a workspace declares beside keys and providers: agents, tools, plugins, external agents, secrets.
//!
//! Written as the admin API takes them, in `snake_case` or `camelCase`, and checked by the same rules.

use std::collections::BTreeSet;

use runloom_protocol::definition::template;
use runloom_protocol::error::Issue;
use runloom_protocol::validate;
use runloom_schema::SchemaCache;
use runloom_service::declared_schemas::Declared;
use runloom_service::registry::{named_secrets, named_tools};
use serde_json::Value;

use super::plugins;
use super::providers::check_model;
use super::table::Table;
use super::types::{DocumentConfig, PlatformConfig, ProviderConfig, SecretConfig};
use super::workspaces::slug;

/// Checks a definition; `&str` is its slug.
type Check = fn(&Value, &str) -> Result<(), Vec<Issue>>;

pub(super) fn agents(
    table: &Table<'_>,
    providers: &[ProviderConfig],
    platform: &PlatformConfig,
) -> Vec<DocumentConfig> {
    let mut seen = BTreeSet::new();
    let mut agents = Vec::new();
    for agent in table.tables("agents") {
        if let Some(model) = agent.text("model").or_else(|| agent.text("model_id")) {
            check_model(&agent, "model", &model, providers, platform);
        }
        let fallback = agent.text("fallback_model");
        if let Some(model) = fallback.or_else(|| agent.text("fallback_model_id")) {
            check_model(&agent, "fallback_model", &model, providers, platform);
        }
        agents.extend(document(agent, &mut seen, |body, _| {
            validate::agent_definition(body).map(drop)
        }));
    }
    agents
}

/// `tools`, `plugins` or `external_agents`.
pub(super) fn read(table: &Table<'_>, key: &'static str) -> Vec<DocumentConfig> {
    let check: Check = match key {
        "tools" => |body, slug| usable(&Declared::by_tool(&validate::tool_definition(body, slug)?)),
        "plugins" => |body, slug| {
            plugins::manifest(body, slug, validate::PluginSource::Administrator).map(drop)
        },
        _ => |body, slug| usable(&Declared::by_tool(&validate::external_agent(body, slug)?)),
    };
    let mut seen = BTreeSet::new();
    let entry = |entry: Table<'_>| {
        if key == "plugins" && entry.has("path") {
            let document = plugins::document(&entry, &mut seen);
            entry.finish();
            return document;
        }
        document(entry, &mut seen, check)
    };
    table.tables(key).into_iter().filter_map(entry).collect()
}

/// Refuses what the registry would refuse.
pub(super) fn usable(declared: &[Declared]) -> Result<(), Vec<Issue>> {
    let issues = Declared::issues(declared, &SchemaCache::new());
    if issues.is_empty() {
        Ok(())
    } else {
        Err(issues)
    }
}

pub(super) fn secrets(table: &Table<'_>) -> Vec<SecretConfig> {
    let mut seen = BTreeSet::new();
    let mut secrets = Vec::new();
    for secret in table.tables("secrets") {
        let name = secret.required("name");
        if let Some(name) = &name {
            if !template::is_secret_name(name) {
                secret.invalid(
                    "name",
                    format!("`{name}` must be 1 to 128 letters, digits, _, . or -"),
                );
            } else if !seen.insert(name.clone()) {
                secret.invalid("name", format!("`{name}` is used twice"));
            }
        }
        let variable = secret.required("value_env");
        let (_, value) = secret.secret("value_env", None);
        if let (Some(variable), None) = (&variable, &value) {
            secret.invalid(
                "value_env",
                format!("the environment variable {variable} (or {variable}_FILE) is not set"),
            );
        }
        secret.finish();
        secrets.extend(
            name.zip(value)
                .map(|(name, value)| SecretConfig { name, value }),
        );
    }
    secrets
}

/// An agent may use a tool that the admin API made; nobody can know that from the file alone.
pub(super) fn warn_of_unknown_tools(
    table: &Table<'_>,
    agents: &[DocumentConfig],
    declared: &BTreeSet<&str>,
) {
    for agent in agents {
        for (place, tool) in named_tools(&agent.definition) {
            // Ids are given by the server.
            if declared.contains(tool.as_str())
                || tool.starts_with("tool_")
                || tool.starts_with("peer_")
            {
                continue;
            }
            let slug = &agent.slug;
            table.warn(
                "agents",
                format!("`{slug}`, {place}: this file declares no tool `{tool}`; runs of the agent are refused unless the workspace has it"),
            );
        }
    }
}

/// A secret that the admin API made may be named, too; one that is not there keeps the server from starting.
pub(super) fn warn_of_unknown_secrets(
    table: &Table<'_>,
    documents: &[&Vec<DocumentConfig>],
    declared: &[SecretConfig],
) {
    for document in documents.iter().copied().flatten() {
        for (place, name) in named_secrets(&document.definition) {
            if declared.iter().any(|secret| secret.name == name) {
                continue;
            }
            let slug = &document.slug;
            table.warn(
                "secrets",
                format!("`{slug}`, {place}: this file declares no secret `{name}`; servers do not start unless the workspace has it"),
            );
        }
    }
}

fn document(
    table: Table<'_>,
    seen: &mut BTreeSet<String>,
    check: impl Fn(&Value, &str) -> Result<(), Vec<Issue>>,
) -> Option<DocumentConfig> {
    let slug = slug(&table, seen)?;
    let definition = Value::Object(table.whole());
    for issue in check(&definition, &slug).err().into_iter().flatten() {
        table.invalid_inside(&issue.path, issue.message);
    }
    Some(DocumentConfig { slug, definition })
}
