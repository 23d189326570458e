//! Tool declarations and tool arguments, for every adapter.

use std::borrow::Cow;

use runloom_ports::model::{ModelError, ToolDeclaration};
use serde_json::Value;

use crate::error;

/// The description of a tool. It includes the output schema, for vendors that have no field for it.
pub(crate) fn description(tool: &ToolDeclaration) -> Cow<'_, str> {
    match &tool.output_schema {
        None => Cow::Borrowed(&tool.description),
        Some(schema) => {
            let gap = if tool.description.is_empty() {
                ""
            } else {
                "\n\n"
            };
            Cow::Owned(format!(
                "{}{gap}The result is JSON that follows this schema: {schema}",
                tool.description
            ))
        }
    }
}

/// Parses the arguments of a call, which must be a JSON object. An empty text or `null` is an empty object.
pub(crate) fn arguments(name: &str, text: &str) -> Result<Value, ModelError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(error::malformed_call(name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_description_includes_the_output_schema() {
        let mut tool = ToolDeclaration {
            name: "t".into(),
            description: "Does it.".into(),
            parameters: json!({}),
            output_schema: None,
        };
        assert_eq!(description(&tool), "Does it.");
        tool.output_schema = Some(json!({"type": "object"}));
        assert_eq!(
            description(&tool),
            "Does it.\n\nThe result is JSON that follows this schema: {\"type\":\"object\"}"
        );
    }

    #[test]
    fn rejects_arguments_that_are_not_an_object() {
        assert_eq!(arguments("t", "").unwrap(), json!({}));
        assert_eq!(arguments("t", "null").unwrap(), json!({}));
        assert_eq!(arguments("t", "{\"a\":1}").unwrap(), json!({"a": 1}));
        for text in ["[1]", "{\"a\":", "\"x\"", "{} {}"] {
            let error = arguments("t", text).unwrap_err();
            assert_eq!(
                error.finish_reason.as_deref(),
                Some("malformed_function_call")
            );
        }
    }
}
