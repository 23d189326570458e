//! What a workspace keeps: agents, tools, plugins, external agents, providers, secrets.
//!
//! Unlike a run's spec, which comes from SDKs of any age, a definition is written by hand: an unknown field is a slip, and an
//! issue. `snake_case` names are taken for their `camelCase` ones, because the configuration file writes them so.

mod agent;
mod names;
mod plugin;
mod provider;
mod tool;

use serde_json::Value;

pub use self::plugin::PluginSource;
use super::checked;
use super::fields::json_bytes;
use crate::definition::{AgentDefinition, PluginManifest, ProviderDefinition, ToolDefinition};
use crate::error::Issue;
use crate::limits;

type Checked<T> = Result<T, Vec<Issue>>;

/// Checks a persisted agent.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn agent_definition(body: &Value) -> Checked<AgentDefinition> {
    let aliases = [
        ("prompt", "systemPrompt"),
        ("model", "modelId"),
        ("fallbackModel", "fallbackModelId"),
    ];
    let body = &names::normal(body, &aliases);
    within_size(body)?;
    checked(body, agent::read)
}

/// Checks a workspace tool. Its model-facing name is the slug's unless it has one.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn tool_definition(body: &Value, slug: &str) -> Checked<ToolDefinition> {
    let body = &names::normal(body, &tool::ALIASES);
    within_size(body)?;
    checked(body, |fields, issues| tool::read(fields, slug, issues)).and_then(whole)
}

/// Checks a plugin's manifest. Its name is the slug's with an `@`; code tools may name a `file` of `files`, whose text becomes their
/// source.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn plugin_manifest(body: &Value, slug: &str, source: PluginSource) -> Checked<PluginManifest> {
    let mut body = names::normal(body, &[]);
    within_size(&body)?;
    let mut issues = plugin::inline_files(&mut body);
    let read = checked(&body, |fields, issues| {
        plugin::manifest(fields, slug, source, issues)
    });
    match read {
        Ok(manifest) if issues.is_empty() => Ok(manifest),
        Ok(_) => Err(issues),
        Err(more) => {
            issues.extend(more);
            issues.truncate(limits::ISSUES_MAX);
            Err(issues)
        }
    }
}

/// Checks a named A2A peer; it becomes a tool whose action is the peer.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn external_agent(body: &Value, slug: &str) -> Checked<ToolDefinition> {
    let body = &names::normal(
        body,
        &[("url", "agentCardUrl"), ("cardUrl", "agentCardUrl")],
    );
    within_size(body)?;
    checked(body, |fields, issues| tool::external(fields, slug, issues)).and_then(whole)
}

/// Checks a provider.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn provider_definition(body: &Value) -> Checked<ProviderDefinition> {
    let body = &names::normal(body, &[]);
    within_size(body)?;
    checked(body, provider::read).and_then(whole)
}

/// Checks `{"value": …}` and gives the value. No message repeats it.
///
/// # Errors
/// Every violation, at most [`crate::limits::ISSUES_MAX`] of them.
pub fn secret_value(body: &Value) -> Checked<String> {
    checked(body, |fields, issues| {
        fields.only(&["slug", "name", "value"], issues);
        let value = fields
            .require("value", issues)
            .and_then(|_| fields.str("value", issues));
        let value = value.unwrap_or_default();
        if value.is_empty() && fields.get("value").is_some() {
            fields.refuse("value", "must not be empty", issues);
        }
        if value.len() > limits::SECRET_VALUE_MAX_BYTES {
            let max = limits::SECRET_VALUE_MAX_BYTES;
            fields.refuse("value", format_args!("must be at most {max} bytes"), issues);
        }
        value.to_owned()
    })
}

/// Something that could not be read at all has left its issue: `None` never comes here without one.
fn whole<T>(read: Option<T>) -> Checked<T> {
    read.ok_or_else(|| {
        vec![Issue {
            path: String::new(),
            message: "is incomplete".to_owned(),
        }]
    })
}

fn within_size(body: &Value) -> Checked<()> {
    let (bytes, max) = (json_bytes(body), limits::DEFINITION_MAX_BYTES);
    if bytes <= max {
        return Ok(());
    }
    Err(vec![Issue {
        path: String::new(),
        message: format!("must be at most {max} bytes of JSON, got {bytes}"),
    }])
}
