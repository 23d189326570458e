//! Enforcement of an output schema, and the fallback when the provider rejects it.
//!
//! If the API has no schema mode for a request, the model is offered one more tool, the hidden tool, whose parameters
//! are the schema. Its arguments are the output of the model. Only the adapter sees the call.

use runloom_ports::model::{ModelError, ModelEvent, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::{EnforcementMechanism, StructuredOutput};
use runloom_protocol::spec::{Enforcement, OutputSchema};
use serde_json::{Map, Value, json};

use crate::error;

/// The property of the hidden tool that holds an output which is not an object.
const WRAPPER: &str = "value";

/// The hidden tool of one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HiddenTool {
    /// Name; differs from every visible tool.
    pub(crate) name: String,
    /// JSON Schema of an object.
    pub(crate) parameters: Value,
    wrapped: bool,
}

impl HiddenTool {
    /// A tool for this schema. Parameters must be an object, so a schema of another type is wrapped in one.
    pub(crate) fn new(base: &str, output: &OutputSchema, tools: &[ToolDeclaration]) -> Self {
        let mut name = base.to_owned();
        while tools.iter().any(|tool| tool.name == name) {
            name.push('_');
        }
        let wrapped = output.schema.get("type").and_then(Value::as_str) != Some("object");
        let parameters = if wrapped {
            wrap(output.schema.clone())
        } else {
            Value::Object(output.schema.clone())
        };
        Self {
            name,
            parameters,
            wrapped,
        }
    }

    /// The output in the arguments of a call.
    pub(crate) fn output(&self, arguments: &Value) -> String {
        match arguments.get(WRAPPER) {
            Some(inner) if self.wrapped => inner.to_string(),
            _ => arguments.to_string(),
        }
    }
}

/// Holds back the text of a turn while a hidden tool is offered. If the model calls that tool, the text beside the call
/// is not part of the output, and text that was shown cannot be taken back.
#[derive(Debug, Default)]
pub(crate) struct TextGate {
    held: Option<String>,
}

impl TextGate {
    /// Closed if a hidden tool is offered, open otherwise.
    pub(crate) fn new(hidden: Option<&HiddenTool>) -> Self {
        Self {
            held: hidden.map(|_| String::new()),
        }
    }

    /// Passes a piece of text on, or holds it back.
    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        match &mut self.held {
            Some(held) => held.push_str(text),
            None if text.is_empty() => {}
            None => out.push(ModelEvent::Text(text.to_owned())),
        }
    }

    /// Passes the held text on, and from now on every piece.
    pub(crate) fn open(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some(text) = self.held.take().filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Text(text));
        }
    }

    /// Drops the held text.
    pub(crate) fn discard(&mut self) {
        self.held = None;
    }
}

/// Outcome when the hidden tool was called.
pub(crate) const BY_HIDDEN_TOOL: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: true,
    enforcement_mechanism: EnforcementMechanism::SyntheticTool,
    unconstrained_fallback_occurred: false,
};

/// Outcome in the API's own schema mode.
pub(crate) const NATIVE: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: true,
    enforcement_mechanism: EnforcementMechanism::NativeSchema,
    unconstrained_fallback_occurred: false,
};

/// Outcome when the hidden tool was offered and not called.
pub(crate) const NOT_CALLED: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: false,
    enforcement_mechanism: EnforcementMechanism::None,
    unconstrained_fallback_occurred: false,
};

/// Outcome when the API rejected the schema.
pub(crate) const SCHEMA_REJECTED: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: false,
    enforcement_mechanism: EnforcementMechanism::None,
    unconstrained_fallback_occurred: true,
};

/// The request without its output schema, if `failure` rejects the schema and enforcement is best effort.
///
/// # Errors
/// The failure of the call in every other case.
pub(crate) fn without_rejected_schema(
    failure: ModelError,
    request: &ModelRequest,
) -> Result<ModelRequest, ModelError> {
    let Some(schema) = request
        .output_schema
        .as_deref()
        .filter(|_| error::rejects_schema(&failure))
    else {
        return Err(failure);
    };
    if schema.enforcement == Enforcement::Strict {
        return Err(error::schema_rejected(failure));
    }
    let mut request = request.clone();
    request.output_schema = None;
    Ok(request)
}

/// Puts a schema inside an object. Its definitions move up, because references to them start at the root.
fn wrap(mut schema: Map<String, Value>) -> Value {
    let definitions: Vec<(&str, Value)> = ["$defs", "definitions"]
        .into_iter()
        .filter_map(|key| schema.shift_remove(key).map(|value| (key, value)))
        .collect();
    let mut outer = json!({
        "type": "object",
        "properties": { WRAPPER: schema },
        "required": [WRAPPER],
        "additionalProperties": false,
    });
    for (key, value) in definitions {
        outer[key] = value;
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(value: Value) -> OutputSchema {
        serde_json::from_value(json!({ "name": "output", "schema": value })).unwrap()
    }

    #[test]
    fn an_object_schema_is_taken_as_it_is() {
        let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let tool = HiddenTool::new("final_report", &schema(object.clone()), &[]);
        assert_eq!(tool.name, "final_report");
        assert_eq!(tool.parameters, object);
        assert_eq!(tool.output(&json!({"value": 1})), r#"{"value":1}"#);
    }

    #[test]
    fn another_schema_is_wrapped_and_its_answer_unwrapped() {
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "string"}}});
        let tool = HiddenTool::new("final_report", &schema(list), &[]);
        assert_eq!(
            tool.parameters["properties"]["value"],
            json!({"type": "array", "items": {"$ref": "#/$defs/x"}})
        );
        assert_eq!(tool.parameters["$defs"], json!({"x": {"type": "string"}}));
        assert_eq!(tool.output(&json!({"value": ["a"]})), r#"["a"]"#);
        assert_eq!(tool.output(&json!({"other": 1})), r#"{"other":1}"#);
    }

    #[test]
    fn the_name_differs_from_every_visible_tool() {
        let taken = ToolDeclaration {
            name: "final_report".into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            output_schema: None,
        };
        let tool = HiddenTool::new("final_report", &schema(json!({"type": "object"})), &[taken]);
        assert_eq!(tool.name, "final_report_");
    }
}
