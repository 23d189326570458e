//! Plugins that come with the server: `@web`, `@time` and `@memory`.

mod memory;
mod page;
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

/// What the shipped tools work with.
pub(crate) struct Shipped {
    outbound: Outbound,
    memory: Option<Arc<dyn WorkspaceMemory>>,
}

impl Shipped {
    /// Tools that reach the world through `outbound` and remember in `memory`.
    pub(crate) fn new(outbound: Outbound, memory: Option<Arc<dyn WorkspaceMemory>>) -> Self {
        Self { outbound, memory }
    }

    /// Carries out a call; the failure is in words for a model. The caller bounds the time.
    pub(crate) async fn call(
        &self,
        tool: ShippedTool,
        workspace: &str,
        input: &Value,
    ) -> Result<Outcome, String> {
        let memory = match tool {
            ShippedTool::WebFetch => return web::fetch(&self.outbound, input).await,
            ShippedTool::TimeNow => return time::now(input),
            ShippedTool::MemoryRecall
            | ShippedTool::MemoryRemember
            | ShippedTool::MemoryTraverse => self.memory.as_deref(),
        };
        let memory = memory.ok_or_else(|| "this server remembers nothing".to_owned())?;
        match tool {
            ShippedTool::MemoryRemember => memory::remember(memory, workspace, input).await,
            ShippedTool::MemoryTraverse => memory::traverse(memory, workspace, input).await,
            _ => memory::recall(memory, workspace, input).await,
        }
    }
}

/// Every plugin that comes with the server.
pub(crate) fn manifests() -> Vec<PluginManifest> {
    vec![
        plugin("web", "Reads pages of the web.", vec![fetch()]),
        plugin("time", "Knows what time it is.", vec![now()]),
        plugin(
            "memory",
            "Remembers things for the whole workspace, across runs and sessions.",
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

fn tool(
    name: &str,
    (shipped, effect): (ShippedTool, DeclaredEffect),
    description: &str,
    (properties, required): (Value, &[&str]),
) -> ToolDefinition {
    let parameters = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.as_object().cloned().unwrap_or_default(),
        output_schema: None,
        effect: Some(effect),
        timeout_ms: None,
        action: ToolAction::Shipped(shipped),
    }
}

fn fetch() -> ToolDefinition {
    tool(
        "fetch",
        (ShippedTool::WebFetch, DeclaredEffect::Read),
        "Fetches a page of the web by its URL and gives its readable text: title, main text and links. Other texts (JSON, CSV, XML, plain) come as they are.",
        (
            json!({
                "url": {"type": "string", "description": "An http or https URL", "minLength": 1, "maxLength": limits::URL_MAX_BYTES},
                "maxChars": {"type": "integer", "minimum": 100, "maximum": 100_000, "description": "Characters of text at most; 20000 unless given"},
                "offset": {"type": "integer", "minimum": 0, "description": "Characters of text to pass over, to read on where an earlier answer was cut"},
            }),
            &["url"],
        ),
    )
}

fn now() -> ToolDefinition {
    tool(
        "now",
        (ShippedTool::TimeNow, DeclaredEffect::Read),
        "Says the date, the time and the weekday, now, in a time zone.",
        (
            json!({"timezone": {"type": "string", "maxLength": 100, "description": "An IANA name like Europe/Oslo; UTC unless given"}}),
            &[],
        ),
    )
}

fn recall() -> ToolDefinition {
    tool(
        "recall",
        (ShippedTool::MemoryRecall, DeclaredEffect::Read),
        "Finds what was remembered earlier, in this or any other conversation of the workspace: memories whose words fit the query, and those that are linked with them.",
        (
            json!({
                "query": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "Words or a question"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Memories at most; 8 unless given"},
            }),
            &["query"],
        ),
    )
}

fn remember() -> ToolDefinition {
    let key = json!({"type": "string", "minLength": 1, "maxLength": limits::MEMORY_KEY_MAX_CHARS});
    let mut own = key.clone();
    own["description"] = "A short name; remembering the same key again replaces its text. Made from the text unless given".into();
    tool(
        "remember",
        (ShippedTool::MemoryRemember, DeclaredEffect::Idempotent),
        "Remembers a fact for later conversations. One fact for each memory; link those that belong together.",
        (
            json!({
                "text": {"type": "string", "minLength": 1, "maxLength": limits::MEMORY_TEXT_MAX_BYTES, "description": "What shall be remembered, understandable by itself"},
                "key": own,
                "links": {
                    "type": "array", "maxItems": limits::MEMORY_LINKS_MAX,
                    "description": "Links from this memory to others that exist; given, they replace its links",
                    "items": {
                        "type": "object", "required": ["relation", "to"], "additionalProperties": false,
                        "properties": {"relation": key, "to": key},
                    },
                },
            }),
            &["text"],
        ),
    )
}

fn traverse() -> ToolDefinition {
    tool(
        "traverse",
        (ShippedTool::MemoryTraverse, DeclaredEffect::Read),
        "Walks along the links between memories, from one of them, in both directions: what belongs to a person, a project, a decision.",
        (
            json!({
                "key": {"type": "string", "minLength": 1, "maxLength": limits::MEMORY_KEY_MAX_CHARS, "description": "Where to begin; recall finds keys"},
                "hops": {"type": "integer", "minimum": 1, "maximum": 4, "description": "Links to follow; 2 unless given"},
                "relation": {"type": "string", "maxLength": limits::MEMORY_KEY_MAX_CHARS, "description": "Follow only links with this relation"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Memories at most; 20 unless given"},
            }),
            &["key"],
        ),
    )
}
