//! Tools of workspaces and plugins, and external agents.

use serde_json::Value;

use super::camel_case::Alias;
use super::http_tool;
use crate::check::documents::object_document;
use crate::check::names::{plugin_name, tool_name};
use crate::check::web;
use crate::definition::template;
use crate::definition::{
    CodeCall, DeclaredEffect, ExternalAgent, McpCall, PluginCall, ToolAction, ToolDefinition,
};
use crate::limits;
use crate::read::{Fields, Keyword, Node, keywords};
use crate::tools::Object;

/// Other names of fields.
pub(super) const ALIASES: [Alias; 2] = [
    Alias {
        from: "inputSchema",
        to: "parameters",
    },
    Alias {
        from: "code",
        to: "source",
    },
];

impl Keyword for DeclaredEffect {
    const ALL: &'static [Self] = &[Self::Read, Self::Idempotent, Self::Once];

    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Once => "once",
        }
    }
}

keywords! {
    /// `type` of a workspace's tool.
    enum WorkspaceToolType {
        Http = "http",
        Code = "code",
        Mcp = "mcp",
        Plugin = "plugin",
    }
}

keywords! {
    /// `type` of a plugin's tool: not `plugin`, because plugins that refer to each other would never end.
    enum PluginToolType {
        Http = "http",
        Code = "code",
        Mcp = "mcp",
    }
}

/// A workspace's tool. Without a `name` it is called like its slug.
pub(super) fn of_workspace(fields: &Fields<'_, '_>, slug: &str) -> Option<ToolDefinition> {
    let action = match fields.require("type")?.keyword()? {
        WorkspaceToolType::Http => http_tool::read(fields).map(ToolAction::Http),
        WorkspaceToolType::Code => code(fields).map(ToolAction::Code),
        WorkspaceToolType::Mcp => mcp(fields).map(ToolAction::Mcp),
        WorkspaceToolType::Plugin => plugin(fields).map(ToolAction::Plugin),
    };
    definition(fields, name_or_slug(fields, slug), action)
}

/// A plugin's tool.
pub(super) fn of_plugin(fields: &Fields<'_, '_>) -> Option<ToolDefinition> {
    let kind = fields.require("type").and_then(|field| field.keyword());
    let action = kind.map(|kind| match kind {
        PluginToolType::Http => http_tool::read(fields).map(ToolAction::Http),
        PluginToolType::Code => code(fields).map(ToolAction::Code),
        PluginToolType::Mcp => mcp(fields).map(ToolAction::Mcp),
    });
    let name = fields.require("name").as_ref().and_then(tool_name);
    // Without a type, the other fields cannot be judged.
    let action = action?;
    definition(fields, name.map(str::to_owned), action)
}

/// A remote agent, as a tool.
pub(super) fn external_agent(fields: &Fields<'_, '_>, slug: &str) -> Option<ToolDefinition> {
    match fields.string("type") {
        None | Some("a2a") => {}
        Some(_) => fields.refuse("type", "expected `a2a`"),
    }
    let url = web::required_url(fields, "agentCardUrl");
    let headers = web::definition_headers(fields);
    let action = url.map(|agent_card_url| {
        ToolAction::A2a(ExternalAgent {
            agent_card_url,
            headers,
        })
    });
    definition(fields, name_or_slug(fields, slug), action)
}

fn name_or_slug(fields: &Fields<'_, '_>, slug: &str) -> Option<String> {
    match fields.get("name") {
        Some(node) => tool_name(&node).map(str::to_owned),
        None => Some(slug.replace('-', "_")),
    }
}

/// The fields of every tool, around its action.
fn definition(
    fields: &Fields<'_, '_>,
    name: Option<String>,
    action: Option<ToolAction>,
) -> Option<ToolDefinition> {
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS);
    let parameters = schema(fields, "parameters");
    let output_schema = schema(fields, "outputSchema");
    let effect = fields.keyword("effect");
    let timeout_ms = fields.integer("timeoutMs", 1..=limits::TOOL_TIMEOUT_MS_MAX);
    fields.accept(&["slug", "id"]);
    fields.refuse_unread();
    let mut definition = ToolDefinition {
        name: name?,
        description: description.unwrap_or_default().to_owned(),
        parameters: parameters.unwrap_or_default(),
        output_schema,
        effect,
        timeout_ms,
        action: action?,
    };
    // The default timeout is written out for readers of the definition; that of a plugin's tool is not known here.
    if !matches!(definition.action, ToolAction::Plugin(_)) {
        definition.timeout_ms = Some(definition.timeout_ms());
    }
    Some(definition)
}

fn schema(fields: &Fields<'_, '_>, key: &'static str) -> Option<Object> {
    let schema = object_document(fields, key)?;
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => fields.refuse(key, "must be the JSON Schema of an object"),
    }
    Some(schema)
}

/// The number of bytes that a tool may return.
pub(super) fn output_bytes(fields: &Fields<'_, '_>, key: &'static str) -> u64 {
    fields
        .integer(key, 1..=limits::TOOL_RESPONSE_BYTES_MAX)
        .unwrap_or(limits::TOOL_RESPONSE_BYTES_DEFAULT)
}

fn code(fields: &Fields<'_, '_>) -> Option<CodeCall> {
    let source = fields.required_text("source", limits::CODE_SOURCE_MAX_BYTES);
    let memory_mb = fields.integer("memoryMb", 1..=limits::CODE_MEMORY_MB_MAX);
    let secrets = fields.list("secrets", limits::CODE_SECRETS_MAX, secret_name);
    let max_output_bytes = output_bytes(fields, "maxOutputBytes");
    let allow_fetch = fields.flag("allowFetch");
    Some(CodeCall {
        source: source?.to_owned(),
        memory_mb: memory_mb.unwrap_or(limits::CODE_MEMORY_MB_DEFAULT),
        max_output_bytes,
        allow_fetch,
        secrets: secrets.unwrap_or_default(),
    })
}

fn secret_name(node: Node<'_, '_>) -> Option<String> {
    let name = node.string()?;
    if !template::is_secret_name(name) {
        node.refuse("expected the name of a secret");
        return None;
    }
    Some(name.to_owned())
}

fn mcp(fields: &Fields<'_, '_>) -> Option<McpCall> {
    let url = web::required_url(fields, "url");
    let headers = web::definition_headers(fields);
    let tool = fields.text("tool", limits::REFERENCE_MAX_CHARS);
    Some(McpCall {
        url: url?,
        headers,
        tool: tool.filter(|name| !name.is_empty()).map(str::to_owned),
        session: fields.keyword("session").unwrap_or_default(),
    })
}

fn plugin(fields: &Fields<'_, '_>) -> Option<PluginCall> {
    let node = fields.require("plugin")?;
    let _ = node.filled_text(limits::REFERENCE_MAX_CHARS)?;
    Some(PluginCall {
        plugin: plugin_name(&node)?.to_owned(),
    })
}
