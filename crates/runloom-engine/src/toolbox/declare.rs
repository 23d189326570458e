//! Descriptions and schemas as the model sees them.

use runloom_protocol::tools::{DelegateRef, Object};
use serde_json::{Value, json};

/// Appended to the description of a `longRunning` tool.
pub(super) const LONG_RUNNING_NOTE: &str = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned an \
     intermediate or pending status.";

/// Maximum skills of an agent card in a description.
const SKILLS: usize = 12;

/// The text, unless it is missing or blank.
pub(super) fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

/// The schema of the arguments: verbatim when its root is an object's, else that of no arguments.
pub(super) fn parameters(schema: Option<&Value>) -> Value {
    let Some(Value::Object(fields)) = schema.filter(|schema| has_object_root(schema)) else {
        return json!({"type": "object", "properties": {}});
    };
    if fields.contains_key("type") {
        return Value::Object(fields.clone());
    }
    // Arguments are always an object; providers refuse a root that does not say so.
    let mut typed = Object::new();
    typed.insert("type".to_owned(), "object".into());
    typed.extend(fields.clone());
    Value::Object(typed)
}

/// The schema of the output, when its root is an object's.
pub(super) fn output_schema(schema: Option<&Value>) -> Option<Value> {
    schema.filter(|schema| has_object_root(schema)).cloned()
}

/// Whether the root is an object. A schema without `type` (a `$ref`, an `anyOf`) counts as one; an empty schema does
/// not.
pub fn has_object_root(schema: &Value) -> bool {
    let Value::Object(fields) = schema else {
        return false;
    };
    match fields.get("type") {
        None => !fields.is_empty(),
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    }
}

/// The only argument of a remote agent.
pub(super) fn message_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "The full task, as a single message."}
        },
        "required": ["message"],
    })
}

/// The only argument of a delegate.
pub(super) fn prompt_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"prompt": {"type": "string"}},
        "required": ["prompt"],
    })
}

/// The description of a delegate.
pub(super) fn delegate_description(delegate: &DelegateRef) -> String {
    given(delegate.description.as_deref()).map_or_else(
        || {
            format!(
                "Delegate a task to the {} agent. It sees only the prompt that you give it.",
                delegate.name
            )
        },
        str::to_owned,
    )
}

/// The description of a remote agent from its card.
pub(super) fn card_description(card: &Object, tool_name: &str) -> String {
    let name = text(card, "name").unwrap_or(tool_name);
    let mut description = format!("Delegate a task to the {name} agent");
    if let Some(about) = text(card, "description") {
        description.push_str(": ");
        description.push_str(about);
    }
    let skills = card.get("skills").and_then(Value::as_array);
    let skills = skills.into_iter().flatten().filter_map(Value::as_object);
    for skill in skills.take(SKILLS) {
        let Some(name) = text(skill, "name").or(text(skill, "id")) else {
            continue;
        };
        description.push_str("\n- ");
        description.push_str(name);
        if let Some(about) = text(skill, "description") {
            description.push_str(": ");
            description.push_str(about);
        }
    }
    description
}

fn text<'a>(fields: &'a Object, name: &str) -> Option<&'a str> {
    given(fields.get(name).and_then(Value::as_str))
}

/// The schema that accepts any arguments.
pub(crate) fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}
