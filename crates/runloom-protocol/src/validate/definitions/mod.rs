//! Definitions that a workspace keeps: agents, tools, plugins, external agents, providers, secrets.
//!
//! A run's spec comes from SDKs of any version, but a definition is written by hand, so an unknown field is an error.
//! Fields may be written in `snake_case`, as the configuration file does, or in `camelCase`.

mod agent;
mod camel_case;
mod http_tool;
mod plugin;
mod process;
mod project;
mod provider;
mod tool;
mod toolset;

use serde_json::Value;

use self::camel_case::Alias;
use crate::definition::{
    AgentDefinition, PluginManifest, ProjectDefinition, ProviderDefinition, ToolDefinition,
    ToolsetDefinition,
};
use crate::error::Issue;
use crate::limits;
use crate::read::{DocumentReader, Fields, Node, ReaderOptions};

type Checked<T> = Result<T, Vec<Issue>>;

/// The author of a plugin or a toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionSource {
    /// The operator's configuration, which may name processes to start.
    Operator,
    /// An administrator of a workspace.
    Administrator,
}

/// Checks a persisted agent.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn agent_definition(body: &Value) -> Checked<AgentDefinition> {
    let body = camel_case::normalize(body, &agent::ALIASES);
    checked(&body, |fields| Some(agent::read(fields)))
}

/// Checks a workspace tool. Its model-facing name is the slug's unless it has one.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn tool_definition(body: &Value, slug: &str) -> Checked<ToolDefinition> {
    let body = camel_case::normalize(body, &tool::ALIASES);
    checked(&body, |fields| tool::of_workspace(fields, slug))
}

/// Checks a plugin's manifest. Its name is the slug's with an `@`. Code tools may name a `file` of `files`; the file's
/// text becomes their source.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn plugin_manifest(
    body: &Value,
    slug: &str,
    source: DefinitionSource,
) -> Checked<PluginManifest> {
    let body = camel_case::normalize(body, &[]);
    let reader = DocumentReader::new(ReaderOptions::json());
    if !has_allowed_size(&reader.root(&body)) {
        return reader.finish(None).and_then(complete);
    }
    let body = plugin::inline_files(body, &reader);
    let fields = reader.root(&body).fields();
    let manifest = fields.map(|fields| plugin::manifest(&fields, slug, source));
    reader.finish(manifest).and_then(complete)
}

/// Checks a toolset. Only the operator's configuration may start processes.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn toolset_definition(
    body: &Value,
    slug: &str,
    source: DefinitionSource,
) -> Checked<ToolsetDefinition> {
    let body = camel_case::normalize(body, &[]);
    checked(&body, |fields| toolset::read(fields, slug, source))
}

/// Checks a named A2A peer; it becomes a tool whose action is the peer.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn external_agent(body: &Value, slug: &str) -> Checked<ToolDefinition> {
    let aliases = ["url", "cardUrl"].map(|from| Alias {
        from,
        to: "agentCardUrl",
    });
    let body = camel_case::normalize(body, &aliases);
    checked(&body, |fields| tool::external_agent(fields, slug))
}

/// Checks a provider.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn provider_definition(body: &Value) -> Checked<ProviderDefinition> {
    let body = camel_case::normalize(body, &[]);
    checked(&body, provider::read)
}

/// Checks the project of a workspace. Whether its modules exist, the workspace knows.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn project_definition(body: &Value) -> Checked<ProjectDefinition> {
    let body = camel_case::normalize(body, &[]);
    checked(&body, |fields| Some(project::read(fields)))
}

/// Checks `{"value": …}` and returns the value. No message repeats it.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn secret_value(body: &Value) -> Checked<String> {
    super::checked(body, |fields| {
        fields.accept(&["slug", "name"]);
        let node = fields.require("value");
        let value = node.and_then(|node| node.string()).unwrap_or_default();
        let max = limits::SECRET_VALUE_MAX_BYTES;
        if value.is_empty() && fields.has("value") {
            fields.refuse("value", "must not be empty");
        }
        if value.len() > max {
            fields.refuse("value", format_args!("must be at most {max} bytes"));
        }
        fields.refuse_unread();
        value.to_owned()
    })
}

/// Reads a definition of bounded size; `read` returns `None` only after an error.
fn checked<T>(body: &Value, read: impl FnOnce(&Fields<'_, '_>) -> Option<T>) -> Checked<T> {
    let reader = DocumentReader::new(ReaderOptions::json());
    let root = reader.root(body);
    let read = has_allowed_size(&root)
        .then(|| root.fields())
        .flatten()
        .and_then(|fields| read(&fields));
    reader.finish(read).and_then(complete)
}

fn has_allowed_size(root: &Node<'_, '_>) -> bool {
    root.has_bytes_within(limits::DEFINITION_MAX_BYTES)
}

/// The definition, which is there when no error was found.
fn complete<T>(read: Option<T>) -> Checked<T> {
    read.ok_or_else(|| {
        vec![Issue {
            path: String::new(),
            message: "is incomplete".to_owned(),
        }]
    })
}
