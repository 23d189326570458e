//! Conversion of MCP listings and results.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult, Tool};
use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool};
use serde_json::{Value, json};

use super::listing::json_size;
use super::session::{McpError, invalid_response};
use super::{KIND, ToolSelection};
use crate::content::{ResultContent, truncate};
use crate::listing_budget::ListingBudget;

/// Maximum bytes of one tool's description.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;

/// Maximum bytes of one tool's schemas, which are sent to the model on every turn.
const MAX_SCHEMA_BYTES: usize = 128 * 1024;

/// The selected tools, in the server's order.
///
/// # Errors
/// A message for the model, when they exceed the run's budget.
pub(super) fn expose(
    selection: ToolSelection<'_>,
    tools: &[Tool],
    budget: &ListingBudget,
) -> Result<Vec<ServerTool>, String> {
    let prefix = selection.prefix;
    let is_selected = |tool: &&Tool| {
        let mut names = selection.filter.into_iter().flatten();
        selection.filter.is_none() || names.any(|name| *name == tool.name)
    };
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for tool in tools.iter().filter(is_selected) {
        let output = tool.output_schema.as_ref();
        let schemas = json_size(&tool.input_schema) + output.map_or(0, json_size);
        if schemas > MAX_SCHEMA_BYTES {
            tracing::warn!(server = prefix, tool = %tool.name, bytes = schemas, "MCP tool omitted: schema too large");
            continue;
        }
        bytes += tool.name.len() + description(tool).len() + schemas;
        kept.push(tool);
    }
    // The budget is taken before anything is copied.
    budget.take(kept.len(), bytes)?;
    let exposed = kept.into_iter().map(|tool| {
        let output = tool.output_schema.as_ref();
        let output = output.map(|schema| Value::Object(schema.as_ref().clone()));
        ServerTool {
            name: match prefix {
                "" => tool.name.to_string(),
                prefix => format!("{prefix}_{}", tool.name),
            },
            description: description(tool).to_owned(),
            parameters: object_root(Value::Object(tool.input_schema.as_ref().clone())),
            output_schema: output.filter(is_object_schema),
            effect: effect(tool),
            from: selection.index,
            target: json!({"kind": KIND, "tool": tool.name}),
        }
    });
    Ok(exposed.collect())
}

/// The outcome of a call.
pub(super) fn outcome(result: ServerResult) -> Result<Outcome, McpError> {
    match result {
        ServerResult::CallToolResult(result) => Ok(read(result)),
        ServerResult::InputRequiredResult(_) => Err(McpError::transient(
            "the tool asks for interactive input, which is not supported",
        )),
        _ => Err(invalid_response("tools/call")),
    }
}

fn read(result: CallToolResult) -> Outcome {
    let mut content = ResultContent::new();
    let structured = result.structured_content.filter(|value| !value.is_null());
    if let Some(value) = &structured {
        content.text(&value.to_string());
    }
    for (index, block) in result.content.into_iter().enumerate() {
        match block {
            // Servers repeat structured content as text for older clients.
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
            _ => content.text("[content block of an unknown type omitted]"),
        }
    }
    if result.is_error == Some(true) {
        if content.is_empty() {
            content.text("The tool failed without a message.");
        }
        return content.error();
    }
    content.success()
}

fn embedded(content: &mut ResultContent, resource: ResourceContents) {
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
        _ => content.text("[resource of an unknown type omitted]"),
    }
}

/// A file name such as `image-2.png` for a block without a name.
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
    truncate(text.unwrap_or(&tool.name), MAX_DESCRIPTION_BYTES)
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

/// The schema, or an empty object schema when its root is not an object.
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
