//! Field names in `camelCase`, whether they were written so or in `snake_case`.

use serde_json::{Map, Value};

/// Fields whose content belongs to others, or whose keys are data.
const VERBATIM: [&str; 18] = [
    "headers",
    "query",
    "body",
    "parameters",
    "inputSchema",
    "outputSchema",
    "agentCard",
    "serverInfo",
    "annotations",
    "args",
    "metadata",
    "toolBudgets",
    "options",
    "secrets",
    "toolFilter",
    "files",
    "env",
    "toolSettings",
];

/// Another name of a field.
pub(super) struct Alias {
    /// The name that may be written instead.
    pub(super) from: &'static str,
    /// The name that is read.
    pub(super) to: &'static str,
}

/// The body with `camelCase` names at every level, and with aliases replaced at the top.
pub(super) fn normalize(body: &Value, aliases: &[Alias]) -> Value {
    let mut normalized = camel(body);
    if let Value::Object(object) = &mut normalized {
        for Alias { from, to } in aliases {
            if !object.contains_key(*to)
                && let Some(value) = object.remove(*from)
            {
                object.insert((*to).to_owned(), value);
            }
        }
    }
    normalized
}

fn camel(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let entry = |(key, value): (&String, &Value)| {
                let key = camel_case(key);
                let value = if VERBATIM.contains(&key.as_str()) {
                    inside_verbatim(&key, value)
                } else {
                    camel(value)
                };
                (key, value)
            };
            Value::Object(object.iter().map(entry).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(camel).collect()),
        other => other.clone(),
    }
}

/// `toolBudgets` and `toolSettings` have names as keys, but their entries have fields of ours.
fn inside_verbatim(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("toolBudgets" | "toolSettings", Value::Object(named)) => Value::Object(
            named
                .iter()
                .map(|(name, entry)| (name.clone(), camel(entry)))
                .collect(),
        ),
        _ => value.clone(),
    }
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    // A leading underscore is no word boundary: such a key stays as it is and is refused under its own name.
    if name.is_empty() {
        return key.to_owned();
    }
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn converts_names_but_not_data() {
        let body = json!({
            "system_prompt": "x",
            "model": "m",
            "tool_budgets": {"my_tool": {"max_calls": 1}},
            "tools": [{"kind": "local", "long_running": true, "parameters": {"my_key": 1}}],
            "headers": {"x_y": "z"},
        });
        assert_eq!(
            normalize(
                &body,
                &[Alias {
                    from: "model",
                    to: "modelId"
                }]
            ),
            json!({
                "systemPrompt": "x",
                "modelId": "m",
                "toolBudgets": {"my_tool": {"maxCalls": 1}},
                "tools": [{"kind": "local", "longRunning": true, "parameters": {"my_key": 1}}],
                "headers": {"x_y": "z"},
            })
        );
    }
}
