//! Definitions of a workspace: agents, tools, plugins, external agents and secrets.
//!
//! They are written as the admin API takes them, in `snake_case` or `camelCase`, and checked by the same rules.

use std::collections::BTreeSet;
use std::fmt;

use runloom_ports::secret::Secret;
use runloom_protocol::definition::template;
use runloom_protocol::error::Issue;
use runloom_protocol::validate::{self, DefinitionSource};
use runloom_schema::SchemaCache;
use runloom_service::declared_schemas::Declared;
use runloom_service::registry::{named_secrets, named_tools};
use serde_json::Value;

use super::plugin;
use super::provider::ModelNames;
use super::table_reader::Table;
use super::workspace::slug;

/// `[[workspaces.agents]]`, `tools`, `plugins`, `toolsets` or `external_agents`.
#[derive(Clone)]
pub struct DefinitionConfig {
    /// Its name in URLs.
    pub slug: String,
    /// The definition as written.
    pub definition: Value,
}

impl fmt::Debug for DefinitionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may be credentials.
        f.debug_tuple("DefinitionConfig").field(&self.slug).finish()
    }
}

/// `[[workspaces.secrets]]`.
#[derive(Debug, Clone)]
pub struct SecretConfig {
    /// The name in `{{secret:NAME}}`.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// A kind of definitions whose entries are read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    Tool,
    Plugin,
    ExternalAgent,
}

impl DefinitionKind {
    fn key(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Plugin => "plugins",
            Self::ExternalAgent => "external_agents",
        }
    }

    fn check(self, body: &Value, slug: &str) -> Result<(), Vec<Issue>> {
        match self {
            Self::Tool => {
                let tool = validate::tool_definition(body, slug)?;
                check_schemas(&Declared::by_tool(&tool))
            }
            Self::Plugin => plugin::manifest(body, slug, DefinitionSource::Administrator).map(drop),
            Self::ExternalAgent => {
                let agent = validate::external_agent(body, slug)?;
                check_schemas(&Declared::by_tool(&agent))
            }
        }
    }
}

/// `agents`.
pub(super) fn agents(table: &Table<'_>, models: &ModelNames<'_>) -> Vec<DefinitionConfig> {
    let mut seen = BTreeSet::new();
    table.tables("agents", |agent| {
        for (key, alias) in [
            ("model", "model_id"),
            ("fallback_model", "fallback_model_id"),
        ] {
            let given = agent.object().get(key).or(agent.object().get(alias));
            if let Some(model) = given.and_then(Value::as_str) {
                models.check(agent, key, model);
            }
        }
        definition(agent, &mut seen, |body, _| {
            validate::agent_definition(body).map(drop)
        })
    })
}

/// `tools`, `plugins` or `external_agents`.
pub(super) fn read_all(table: &Table<'_>, kind: DefinitionKind) -> Vec<DefinitionConfig> {
    let mut seen = BTreeSet::new();
    table.tables(kind.key(), |entry| {
        if kind == DefinitionKind::Plugin && entry.has("path") {
            let read = plugin::definition(entry, &mut seen);
            entry.finish();
            return read;
        }
        definition(entry, &mut seen, |body, slug| kind.check(body, slug))
    })
}

/// Refuses schemas that the registry would refuse.
pub(super) fn check_schemas(declared: &[Declared]) -> Result<(), Vec<Issue>> {
    let issues = Declared::issues(declared, &SchemaCache::new());
    if issues.is_empty() {
        Ok(())
    } else {
        Err(issues)
    }
}

/// `secrets`.
pub(super) fn secrets(table: &Table<'_>) -> Vec<SecretConfig> {
    let mut seen = BTreeSet::new();
    table.tables("secrets", |secret| {
        let name = secret.required("name");
        if let Some(name) = &name {
            if !template::is_secret_name(name) {
                secret.refuse(
                    "name",
                    format_args!("`{name}` must be 1 to 128 letters, digits, _, . or -"),
                );
            } else if !seen.insert(name.clone()) {
                secret.refuse("name", format_args!("`{name}` is used twice"));
            }
        }
        let value = secret.required_secret("value_env");
        secret.finish();
        Some(SecretConfig {
            name: name?,
            value: value?,
        })
    })
}

fn definition(
    table: &Table<'_>,
    seen: &mut BTreeSet<String>,
    check: impl Fn(&Value, &str) -> Result<(), Vec<Issue>>,
) -> Option<DefinitionConfig> {
    let slug = slug(table, seen)?;
    let definition = Value::Object(table.object().clone());
    for issue in check(&definition, &slug).err().into_iter().flatten() {
        table.refuse_issue(&issue);
    }
    Some(DefinitionConfig { slug, definition })
}

/// The names that a workspace of the file declares. Definitions may also name what the admin API created, so an
/// undeclared name is only a warning.
pub(super) struct DeclaredNames<'a> {
    tools: BTreeSet<&'a str>,
    secrets: BTreeSet<&'a str>,
}

impl<'a> DeclaredNames<'a> {
    pub(super) fn new(
        tools: impl Iterator<Item = &'a DefinitionConfig>,
        secrets: &'a [SecretConfig],
    ) -> Self {
        Self {
            tools: tools.map(|tool| tool.slug.as_str()).collect(),
            secrets: secrets.iter().map(|secret| secret.name.as_str()).collect(),
        }
    }

    /// Warns about tools of agents. Ids are given by the server, so they cannot be checked.
    pub(super) fn warn_about_tools(&self, table: &Table<'_>, agents: &[DefinitionConfig]) {
        for agent in agents {
            for (place, tool) in named_tools(&agent.definition) {
                let is_id = tool.starts_with("tool_") || tool.starts_with("peer_");
                if is_id || self.tools.contains(tool.as_str()) {
                    continue;
                }
                let slug = &agent.slug;
                table.warn(
                    "agents",
                    format_args!("`{slug}`, {place}: this file declares no tool `{tool}`; runs of the agent are refused unless the workspace has it"),
                );
            }
        }
    }

    /// Warns about secrets of definitions. A secret that does not exist keeps the server from starting.
    pub(super) fn warn_about_secrets<'d>(
        &self,
        table: &Table<'_>,
        definitions: impl Iterator<Item = &'d DefinitionConfig>,
    ) {
        for declared in definitions {
            for (place, name) in named_secrets(&declared.definition) {
                if self.secrets.contains(name.as_str()) {
                    continue;
                }
                let slug = &declared.slug;
                table.warn(
                    "secrets",
                    format_args!("`{slug}`, {place}: this file declares no secret `{name}`; servers do not start unless the workspace has it"),
                );
            }
        }
    }
}
