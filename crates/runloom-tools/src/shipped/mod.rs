//! Plugins that ship with the server: `@web`, `@time` and `@memory`.

mod html_page;
mod memory;
mod time;
mod web;

use std::sync::Arc;

use runloom_ports::memory::WorkspaceMemory;
use runloom_ports::tools::Outcome;
use runloom_protocol::definition::{
    DeclaredEffect, PluginManifest, ShippedTool, ToolAction, ToolDefinition,
};
use runloom_protocol::limits;
use serde_json::{Value, json};

use crate::outbound::Outbound;

/// Executes the shipped tools.
pub(crate) struct ShippedTools {
    outbound: Outbound,
    memory: Option<Arc<dyn WorkspaceMemory>>,
}

impl ShippedTools {
    /// Tools that fetch through `outbound` and store memories in `memory`.
    pub(crate) fn new(outbound: Outbound, memory: Option<Arc<dyn WorkspaceMemory>>) -> Self {
        Self { outbound, memory }
    }

    /// Whether the plugin with this slug can be used: `memory` needs a memory store.
    pub(crate) fn supports(&self, slug: &str) -> bool {
        slug != "memory" || self.memory.is_some()
    }

    /// Executes a call. The caller bounds the time.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn call(
        &self,
        tool: ShippedTool,
        workspace: &str,
        input: &Value,
    ) -> Result<Outcome, String> {
        match tool {
            ShippedTool::WebFetch => web::fetch(&self.outbound, input).await,
            ShippedTool::TimeNow => time::now(input),
            ShippedTool::MemoryRecall => memory::recall(self.memory()?, workspace, input).await,
            ShippedTool::MemoryRemember => memory::remember(self.memory()?, workspace, input).await,
            ShippedTool::MemoryTraverse => memory::traverse(self.memory()?, workspace, input).await,
        }
    }

    fn memory(&self) -> Result<&dyn WorkspaceMemory, String> {
        let memory = self.memory.as_deref();
        memory.ok_or_else(|| "this server has no memory store".to_owned())
    }
}

/// The manifests of all shipped plugins.
pub(crate) fn manifests() -> Vec<PluginManifest> {
    vec![
        plugin("web", "Reads web pages.", vec![fetch()]),
        plugin("time", "Tells the current time.", vec![now()]),
        plugin(
            "memory",
            "Remembers facts for the whole workspace, across runs and sessions.",
            vec![recall(), remember(), traverse()],
        ),
    ]
}

fn plugin(slug: &str, description: &str, tools: Vec<ToolDefinition>) -> PluginManifest {
    PluginManifest {
        name: format!("@{slug}"),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        description: Some(description.to_owned()),
        global: true,
        tools,
        servers: Vec::new(),
    }
}

/// The definition of a shipped tool.
struct ShippedDefinition<'a> {
    name: &'a str,
    tool: ShippedTool,
    effect: DeclaredEffect,
    description: &'a str,
    properties: Value,
    required: &'a [&'a str],
}

impl From<ShippedDefinition<'_>> for ToolDefinition {
    fn from(shipped: ShippedDefinition<'_>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": shipped.properties,
            "required": shipped.required,
            "additionalProperties": false,
        });
        Self {
            name: shipped.name.to_owned(),
            description: shipped.description.to_owned(),
            parameters: parameters.as_object().cloned().unwrap_or_default(),
            output_schema: None,
            effect: Some(shipped.effect),
            timeout_ms: None,
            action: ToolAction::Shipped(shipped.tool),
        }
    }
}

fn fetch() -> ToolDefinition {
    ToolDefinition::from(ShippedDefinition {
        name: "fetch",
        tool: ShippedTool::WebFetch,
        effect: DeclaredEffect::Read,
        description: "Fetches a web page by its URL and returns its readable text: title, main text and links. Other texts (JSON, CSV, XML, plain) are returned unchanged.",
        properties: json!({
            "url": {"type": "string", "description": "An http or https URL", "minLength": 1, "maxLength": limits::URL_MAX_BYTES},
            "maxChars": {"type": "integer", "minimum": 100, "maximum": 100_000, "description": "Maximum characters of text; default 20000"},
            "offset": {"type": "integer", "minimum": 0, "description": "Characters of text to skip, to continue where an earlier result was truncated"},
        }),
        required: &["url"],
    })
}

fn now() -> ToolDefinition {
    ToolDefinition::from(ShippedDefinition {
        name: "now",
        tool: ShippedTool::TimeNow,
        effect: DeclaredEffect::Read,
        description: "Returns the current date, time and weekday in a time zone.",
        properties: json!({
            "timezone": {"type": "string", "maxLength": 100, "description": "An IANA name like Europe/Oslo; default UTC"},
        }),
        required: &[],
    })
}

fn recall() -> ToolDefinition {
    ToolDefinition::from(ShippedDefinition {
        name: "recall",
        tool: ShippedTool::MemoryRecall,
        effect: DeclaredEffect::Read,
        description: "Searches the memories of all conversations of the workspace: memories that match the query, and those linked with them.",
        properties: json!({
            "query": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "Words or a question"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Maximum memories; default 8"},
        }),
        required: &["query"],
    })
}

fn remember() -> ToolDefinition {
    let key = json!({"type": "string", "minLength": 1, "maxLength": limits::MEMORY_KEY_MAX_CHARS});
    let mut own = key.clone();
    own["description"] =
        "A short name; remembering the same key again replaces its text. Default: derived from the text"
            .into();
    ToolDefinition::from(ShippedDefinition {
        name: "remember",
        tool: ShippedTool::MemoryRemember,
        effect: DeclaredEffect::Idempotent,
        description: "Stores a fact for later conversations. One fact per memory; link facts that belong together.",
        properties: json!({
            "text": {"type": "string", "minLength": 1, "maxLength": limits::MEMORY_TEXT_MAX_BYTES, "description": "The fact, understandable without context"},
            "key": own,
            "links": {
                "type": "array", "maxItems": limits::MEMORY_LINKS_MAX,
                "description": "Links from this memory to existing ones; if given, they replace its links",
                "items": {
                    "type": "object", "required": ["relation", "to"], "additionalProperties": false,
                    "properties": {"relation": key, "to": key},
                },
            },
        }),
        required: &["text"],
    })
}

fn traverse() -> ToolDefinition {
    ToolDefinition::from(ShippedDefinition {
        name: "traverse",
        tool: ShippedTool::MemoryTraverse,
        effect: DeclaredEffect::Read,
        description: "Follows the links between memories from one of them, in both directions, for example to everything about a person, a project or a decision.",
        properties: json!({
            "key": {"type": "string", "minLength": 1, "maxLength": limits::MEMORY_KEY_MAX_CHARS, "description": "Key of the first memory; recall finds keys"},
            "hops": {"type": "integer", "minimum": 1, "maximum": 4, "description": "Maximum links to follow; default 2"},
            "relation": {"type": "string", "maxLength": limits::MEMORY_KEY_MAX_CHARS, "description": "Follow only links with this relation"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Maximum memories; default 20"},
        }),
        required: &["key"],
    })
}
