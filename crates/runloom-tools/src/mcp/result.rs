//! From MCP's results and listings to ours.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult, Tool};
use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool};
use runloom_protocol::tools::McpTool;
use serde_json::{Value, json};

use super::link::{Fault, unexpected};
use super::listing::size;
use crate::budget::Budget;
use crate::content::{Content, cut};

/// The most bytes of one tool's description.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;

/// The most bytes of one tool's schema: a listing is repeated to the model on every turn.
const MAX_SCHEMA_BYTES: usize = 128 * 1024;

/// What the run's model is offered, in the server's order. The prefix stands before every name, unless it is empty.
///
/// # Errors
/// In words for a model, when it is more than the run's budget.
pub(super) fn expose(
    (prefix, filter): (&str, Option<&[String]>),
    (from, budget): (usize, &Budget),
    tools: &[Tool],
) -> Result<Vec<ServerTool>, String> {
    let wanted = |tool: &&Tool| filter.is_none_or(|names| names.iter().any(|n| *n == tool.name));
    let named = |tool: &Tool| match prefix {
        "" => tool.name.to_string(),
        prefix => format!("{prefix}_{}", tool.name),
    };
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for tool in tools.iter().filter(wanted) {
        let schemas = size(&tool.input_schema) + tool.output_schema.as_ref().map_or(0, size);
        if schemas > MAX_SCHEMA_BYTES {
            tracing::warn!(server = prefix, tool = %tool.name, bytes = schemas, "an MCP tool is left out: its schema is too large");
            continue;
        }
        bytes += tool.name.len() + description(tool).len() + schemas;
        kept.push(tool);
    }
    // Before anything of it is copied.
    budget.take(kept.len(), bytes)?;
    let exposed = kept.into_iter().map(|tool| {
        let output = tool.output_schema.as_ref();
        let output = output.map(|schema| Value::Object(schema.as_ref().clone()));
        ServerTool {
            name: named(tool),
            description: description(tool).to_owned(),
            parameters: object_root(Value::Object(tool.input_schema.as_ref().clone())),
            output_schema: output.filter(is_object_schema),
            effect: effect(tool),
            from,
            target: json!({"kind": "mcp", "tool": tool.name}),
        }
    });
    Ok(exposed.collect())
}

/// What stands in for a server that cannot be reached.
pub(super) fn stub(server: &McpTool, from: usize, why: &str) -> ServerTool {
    ServerTool {
        name: format!("{}_unavailable", server.name),
        description: format!(
            "The MCP server \"{}\" is unavailable, so that none of its tools can be used. Calling this tool says why.",
            server.name
        ),
        parameters: json!({"type": "object", "properties": {}}),
        output_schema: None,
        effect: Effect::Read,
        from,
        target: json!({"kind": "mcp", "unavailable": why}),
    }
}

/// What a call came to.
pub(super) fn outcome(result: ServerResult) -> Result<Outcome, Fault> {
    match result {
        ServerResult::CallToolResult(result) => Ok(read(result)),
        ServerResult::InputRequiredResult(_) => Err(Fault::passing(
            "the tool asks for input that only a person at a client could give",
        )),
        _ => Err(unexpected("tools/call")),
    }
}

fn read(result: CallToolResult) -> Outcome {
    let mut content = Content::new();
    let structured = result.structured_content.filter(|value| !value.is_null());
    if let Some(value) = &structured {
        content.text(&value.to_string());
    }
    for (index, block) in result.content.into_iter().enumerate() {
        match block {
            // Servers repeat structured content as text for clients that know no better.
            ContentBlock::Text(_) if structured.is_some() => {}
            ContentBlock::Text(text) => content.text(&text.text),
            ContentBlock::Image(image) => {
                let name = numbered("image", index, &image.mime_type);
                content.file(&name, &image.mime_type, &image.data);
            }
            ContentBlock::Audio(audio) => {
                let name = numbered("audio", index, &audio.mime_type);
                content.file(&name, &audio.mime_type, &audio.data);
            }
            ContentBlock::Resource(resource) => embedded(&mut content, resource.resource),
            ContentBlock::ResourceLink(link) => {
                content.text(&format!("[resource {}: {}]", link.name, link.uri));
            }
            _ => content.text("[a block of a type that this server does not know]"),
        }
    }
    if result.is_error == Some(true) {
        if content.is_empty() {
            content.text("The tool failed without saying why.");
        }
        return content.error();
    }
    content.success()
}

fn embedded(content: &mut Content, resource: ResourceContents) {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            content.text(&format!("[resource {uri}]\n{text}"));
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let name = uri.rsplit('/').find(|part| !part.is_empty());
            let mime_type = mime_type.as_deref().unwrap_or("application/octet-stream");
            content.file(name.unwrap_or("resource"), mime_type, &blob);
        }
        _ => content.text("[a resource of a type that this server does not know]"),
    }
}

/// `image-2.png`: a name for a block that has none.
fn numbered(what: &str, index: usize, mime_type: &str) -> String {
    let sub = mime_type.split([';', '+']).next().unwrap_or_default();
    let sub = sub.split_once('/').map_or("bin", |(_, sub)| sub.trim());
    format!("{what}-{}.{sub}", index + 1)
}

fn description(tool: &Tool) -> &str {
    let title = || {
        let hint = tool.annotations.as_ref().and_then(|a| a.title.as_deref());
        tool.title.as_deref().or(hint)
    };
    let given = tool.description.as_deref().or_else(title);
    let text = given.filter(|text| !text.trim().is_empty());
    cut(text.unwrap_or(&tool.name), MAX_DESCRIPTION_BYTES)
}

fn effect(tool: &Tool) -> Effect {
    let hints = tool.annotations.as_ref();
    if hints.and_then(|hints| hints.read_only_hint) == Some(true) {
        Effect::Read
    } else if hints.and_then(|hints| hints.idempotent_hint) == Some(true) {
        Effect::Idempotent
    } else {
        Effect::Once
    }
}

/// Non-object roots become an empty object schema.
fn object_root(schema: Value) -> Value {
    if is_object_schema(&schema) {
        schema
    } else {
        json!({"type": "object", "properties": {}})
    }
}

fn is_object_schema(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}
