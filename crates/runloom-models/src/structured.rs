//! How an output schema is enforced, and what becomes of it when it is refused.
//!
//! Where the API has no schema mode for a request, the model is offered one more tool whose parameters are the schema;
//! its arguments are the answer. Nobody but the adapter ever sees the call.

use runloom_ports::model::{ModelError, ModelEvent, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::{EnforcementMechanism, StructuredOutput};
use runloom_protocol::spec::{Enforcement, OutputSchema};
use serde_json::{Map, Value, json};

use crate::error;

/// The property that holds an answer which is not an object by itself.
const WRAPPER: &str = "value";

/// A hidden tool, made for one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HiddenTool {
    /// Its name; never that of a visible tool.
    pub(crate) name: String,
    /// Its parameters: always an object.
    pub(crate) parameters: Value,
    wrapped: bool,
}

impl HiddenTool {
    /// Makes the tool. Tools take objects only, so that a schema of anything else is put inside one.
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

    /// The answer in the arguments of a call.
    pub(crate) fn answer(&self, arguments: &Value) -> String {
        match arguments.get(WRAPPER) {
            Some(inner) if self.wrapped => inner.to_string(),
            _ => arguments.to_string(),
        }
    }
}

/// The text of a turn. While a hidden tool is offered it waits: when the tool is called, what was said beside it is not
/// part of the answer, and what was shown cannot be taken back.
#[derive(Debug, Default)]
pub(crate) struct TextGate {
    held: Option<String>,
}

impl TextGate {
    /// Closed while `hidden` is offered, open otherwise.
    pub(crate) fn new(hidden: Option<&HiddenTool>) -> Self {
        Self {
            held: hidden.map(|_| String::new()),
        }
    }

    /// One more piece.
    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        match &mut self.held {
            Some(held) => held.push_str(text),
            None if text.is_empty() => {}
            None => out.push(ModelEvent::Text(text.to_owned())),
        }
    }

    /// Shows what waited, and lets everything after it through.
    pub(crate) fn open(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some(text) = self.held.take().filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Text(text));
        }
    }

    /// Forgets what waited.
    pub(crate) fn discard(&mut self) {
        self.held = None;
    }
}

/// What became of the schema when the hidden tool was called.
pub(crate) const BY_HIDDEN_TOOL: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: true,
    enforcement_mechanism: EnforcementMechanism::SyntheticTool,
    unconstrained_fallback_occurred: false,
};

/// What became of the schema in the API's own schema mode.
pub(crate) const NATIVE: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: true,
    enforcement_mechanism: EnforcementMechanism::NativeSchema,
    unconstrained_fallback_occurred: false,
};

/// What became of the schema when the hidden tool was offered and not called.
pub(crate) const NOT_CALLED: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: false,
    enforcement_mechanism: EnforcementMechanism::None,
    unconstrained_fallback_occurred: false,
};

/// What became of the schema when the API refused it.
pub(crate) const FELL_BACK: StructuredOutput = StructuredOutput {
    schema_requested: true,
    schema_enforced: false,
    enforcement_mechanism: EnforcementMechanism::None,
    unconstrained_fallback_occurred: true,
};

/// The request to send after `failure`, when that was a refusal of the schema and the run can do without; otherwise the
/// failure of the run.
pub(crate) fn without_refused_schema(
    failure: ModelError,
    request: &ModelRequest,
) -> Result<ModelRequest, ModelError> {
    let Some(schema) = request
        .output_schema
        .as_deref()
        .filter(|_| error::refuses_schema(&failure))
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
        assert_eq!(tool.answer(&json!({"value": 1})), r#"{"value":1}"#);
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
        assert_eq!(tool.answer(&json!({"value": ["a"]})), r#"["a"]"#);
        assert_eq!(tool.answer(&json!({"other": 1})), r#"{"other":1}"#);
    }

    #[test]
    fn a_visible_tool_of_the_same_name_is_left_alone() {
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
