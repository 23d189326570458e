//! Conversion of MCP listings to tools of a run.

use rmcp::model::Tool;
use runloom_ports::effect::Effect;
use runloom_ports::tools::ServerTool;
use runloom_protocol::tools::ToolAnnotations;
use serde_json::{Value, json};

use super::listing::json_size;
use super::{KIND, ToolSelection};
use crate::content::truncate;
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
            action_effects: None,
            name: match prefix {
                "" => tool.name.to_string(),
                prefix => format!("{prefix}_{}", tool.name),
            },
            description: description(tool).to_owned(),
            parameters: object_root(Value::Object(tool.input_schema.as_ref().clone())),
            output_schema: output.filter(is_object_schema),
            effect: effect(tool),
            annotations: Some(annotations(tool)),
            policy: None,
            from: selection.index,
            target: json!({"kind": KIND, "tool": tool.name}),
        }
    });
    Ok(exposed.collect())
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

/// The hints of the server.
fn annotations(tool: &Tool) -> ToolAnnotations {
    let Some(hints) = &tool.annotations else {
        return ToolAnnotations::default();
    };
    ToolAnnotations {
        read_only_hint: hints.read_only_hint,
        destructive_hint: hints.destructive_hint,
        idempotent_hint: hints.idempotent_hint,
        open_world_hint: hints.open_world_hint,
    }
}

/// Replaces the effect of a tool by one that an administrator declared, which takes precedence over the server's hints.
pub(crate) fn override_effect(tool: &mut ServerTool, effect: Effect) {
    tool.effect = effect;
    if let Some(hints) = &mut tool.annotations {
        hints.read_only_hint = Some(effect == Effect::Read);
        hints.idempotent_hint = Some(effect != Effect::Once);
        if effect == Effect::Read {
            hints.destructive_hint = Some(false);
        }
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
