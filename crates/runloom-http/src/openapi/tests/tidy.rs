//! Makes generated schemas plain: for readers, and for programs that generate clients.

use serde_json::{Map, Value, json};

/// Rewrites a schema and everything in it.
pub(super) fn schema(node: &mut Value) {
    if *node == Value::Bool(true) {
        *node = json!({});
    }
    let Some(map) = node.as_object_mut() else {
        return;
    };
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = prose(text);
    }
    for keyword in ["properties", "patternProperties"] {
        if let Some(Value::Object(inner)) = map.get_mut(keyword) {
            inner.values_mut().for_each(schema);
        }
    }
    for keyword in ["items", "additionalProperties", "unevaluatedProperties"] {
        if let Some(inner) = map.get_mut(keyword).filter(|inner| inner.is_object()) {
            schema(inner);
        }
    }
    for keyword in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(inner)) = map.get_mut(keyword) {
            inner.iter_mut().for_each(schema);
        }
    }
    drop_number_format(map);
    words_to_enum(map);
    merge_single(map);
    absent_is_not_null(map);
    name_times(map);
}

/// One line per paragraph, without the links of Rust's documentation.
fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        lines.join(" ")
    });
    let joined = paragraphs.collect::<Vec<_>>().join("\n\n");
    joined.replace("[`", "`").replace("`]", "`")
}

/// The sizes of Rust's numbers say nothing about the API.
fn drop_number_format(map: &mut Map<String, Value>) {
    let is_number = |kind: &Value| kind == "integer" || kind == "number";
    let number = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_number),
        Some(kind) => is_number(kind),
        None => false,
    };
    if !number {
        return;
    }
    map.remove("format");
    if map
        .get("maximum")
        .and_then(Value::as_u64)
        .is_some_and(|most| [255, 65_535].contains(&most))
    {
        map.remove("maximum");
    }
}

/// Alternatives that are all words become an `enum`, with their descriptions in its own.
fn words_to_enum(map: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = map.get("oneOf") else {
        return;
    };
    let mut words = Vec::new();
    let mut notes = String::new();
    for alternative in alternatives {
        let of_alternative: Vec<&Value> = match (alternative.get("const"), alternative.get("enum"))
        {
            (Some(word), None) => vec![word],
            (None, Some(Value::Array(words))) => words.iter().collect(),
            _ => return,
        };
        for word in of_alternative {
            let about = alternative.get("description").and_then(Value::as_str);
            let word_text = word.as_str().unwrap_or_default();
            if let Some(about) = about {
                notes.push_str(&format!("\n- `{word_text}`: {about}"));
            }
            words.push(word.clone());
        }
    }
    map.remove("oneOf");
    let about = map.remove("description");
    let about = about.as_ref().and_then(Value::as_str).unwrap_or_default();
    map.insert("type".to_owned(), json!("string"));
    map.insert(
        "description".to_owned(),
        json!(format!("{about}\n{notes}").trim()),
    );
    map.insert("enum".to_owned(), json!(words));
}

/// A single alternative becomes the schema itself.
fn merge_single(map: &mut Map<String, Value>) {
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let Some(Value::Array(alternatives)) = map.get_mut(keyword) else {
            continue;
        };
        if let [Value::Object(only)] = alternatives.as_mut_slice() {
            let only = std::mem::take(only);
            map.remove(keyword);
            merge(map, only);
        }
    }
}

/// Adds a schema to another one; fields and required fields are joined, everything else stays as it is.
pub(super) fn merge(map: &mut Map<String, Value>, other: Map<String, Value>) {
    for (keyword, value) in other {
        match (map.get_mut(&keyword), value) {
            (Some(Value::Object(known)), Value::Object(value)) if keyword == "properties" => {
                known.extend(value);
            }
            (Some(Value::Array(known)), Value::Array(value)) if keyword == "required" => {
                known.extend(value);
            }
            (None, value) => drop(map.insert(keyword, value)),
            _ => {}
        }
    }
}

/// A field that may be absent is absent rather than `null`: requests need not say `null`, responses never do.
fn absent_is_not_null(map: &mut Map<String, Value>) {
    let required: Vec<String> = match map.get("required") {
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    let Some(Value::Object(properties)) = map.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        if required.contains(name) {
            property.remove("default");
            continue;
        }
        if property.get("default") == Some(&Value::Null) {
            property.remove("default");
        }
        if let Some(Value::Array(kinds)) = property.get_mut("type") {
            kinds.retain(|kind| kind != "null");
            if let [kind] = kinds.as_slice() {
                let kind = kind.clone();
                property.insert("type".to_owned(), kind);
            }
        }
        if let Some(Value::Array(alternatives)) = property.get_mut("anyOf") {
            alternatives.retain(|alternative| alternative.get("type") != Some(&json!("null")));
            merge_single(property);
        }
    }
}

/// Fields of this API that end in `At` or `Date` are times.
fn name_times(map: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = map.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        let is_text = |kind: &Value| kind == "string" || *kind == json!(["string", "null"]);
        let is_time = name.ends_with("At") || name.ends_with("Date");
        if is_time && property.get("type").is_some_and(is_text) {
            property["format"] = json!("date-time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(mut node: Value) -> Value {
        schema(&mut node);
        node
    }

    #[test]
    fn documented_words_become_an_enum() {
        let words = json!({"description": "A verdict.", "oneOf": [
            {"type": "string", "const": "UP", "description": "Good."},
            {"type": "string", "const": "DOWN", "description": "Bad."},
        ]});
        let wanted = json!({
            "description": "A verdict.\n\n- `UP`: Good.\n- `DOWN`: Bad.",
            "type": "string",
            "enum": ["UP", "DOWN"],
        });
        assert_eq!(tidied(words), wanted);
    }

    #[test]
    fn optional_fields_are_not_nullable() {
        let object = json!({
            "type": "object",
            "properties": {
                "a": {"type": ["string", "null"]},
                "b": {"type": ["string", "null"]},
                "c": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}], "description": "C\nc."},
            },
            "required": ["a"],
        });
        let wanted = json!({
            "a": {"type": ["string", "null"]},
            "b": {"type": "string"},
            "c": {"description": "C c.", "$ref": "#/x"},
        });
        assert_eq!(tidied(object)["properties"], wanted);
    }
}
