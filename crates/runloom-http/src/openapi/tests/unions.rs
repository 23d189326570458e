//! Tagged unions: every alternative becomes a component of its own, with all its fields, and the union gets a
//! discriminator.

use serde_json::{Map, Value, json};

use super::tidy;

/// Rewrites every definition that is a tagged union. Definitions refer to each other below `prefix`.
pub(super) fn lift(definitions: &mut Map<String, Value>, prefix: &str) {
    let known = definitions.clone();
    let mut lifted = Map::new();
    for (name, schema) in definitions.iter_mut() {
        let Some(map) = schema.as_object_mut() else {
            continue;
        };
        let Some(Value::Array(alternatives)) = map.remove("oneOf") else {
            continue;
        };
        let Some(tag) = tag_of(&alternatives) else {
            map.insert("oneOf".to_owned(), Value::Array(alternatives));
            continue;
        };
        let about = map.remove("description");
        let shared = std::mem::take(map);
        let mut references = Vec::new();
        let mut mapping = Map::new();
        for alternative in alternatives {
            let full = full(alternative, &shared, &known, prefix);
            let word = full["properties"][&tag]["const"]
                .as_str()
                .unwrap_or_default();
            let component = format!("{}{name}", pascal(word));
            let reference = format!("{prefix}{component}");
            mapping.insert(word.to_owned(), json!(reference));
            references.push(json!({"$ref": reference}));
            lifted.insert(component, full);
        }
        if let Some(about) = about {
            map.insert("description".to_owned(), about);
        }
        map.insert("oneOf".to_owned(), Value::Array(references));
        let discriminator = json!({"propertyName": tag, "mapping": mapping});
        map.insert("discriminator".to_owned(), discriminator);
    }
    definitions.extend(lifted);
}

/// An alternative with the fields that all alternatives share, and those that it refers to.
fn full(
    alternative: Value,
    shared: &Map<String, Value>,
    known: &Map<String, Value>,
    prefix: &str,
) -> Value {
    let Value::Object(mut alternative) = alternative else {
        return alternative;
    };
    let referred = alternative.remove("$ref");
    let referred = referred.as_ref().and_then(Value::as_str);
    let referred = referred
        .and_then(|reference| known.get(reference.strip_prefix(prefix)?)?.as_object())
        .cloned();
    let mut whole = shared.clone();
    if let Some(about) = alternative.remove("description") {
        whole.insert("description".to_owned(), about);
    }
    tidy::merge(&mut whole, alternative);
    tidy::merge(&mut whole, referred.unwrap_or_default());
    Value::Object(whole)
}

/// The field that tells the alternatives apart: a constant in each of them.
fn tag_of(alternatives: &[Value]) -> Option<String> {
    let constants = |alternative: &Value| -> Option<Vec<String>> {
        let properties = alternative.get("properties")?.as_object()?;
        let constant = properties
            .iter()
            .filter(|(_, property)| property.get("const").is_some());
        Some(constant.map(|(name, _)| name.clone()).collect())
    };
    let first = constants(alternatives.first()?)?;
    let in_all = |name: &&String| {
        alternatives
            .iter()
            .all(|alternative| constants(alternative).is_some_and(|found| found.contains(name)))
    };
    first.iter().find(in_all).cloned()
}

fn pascal(word: &str) -> String {
    let parts = word.split(['_', '-']).map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_become_components_with_all_their_fields() {
        let mut definitions = json!({
            "Ref": {
                "description": "A ref.",
                "properties": {"seq": {"type": "integer"}},
                "required": ["seq"],
                "oneOf": [
                    {
                        "type": "object",
                        "description": "One.",
                        "properties": {"kind": {"const": "local_one"}},
                        "required": ["kind"],
                        "$ref": "#/p/One",
                    },
                    {"type": "object", "properties": {"kind": {"const": "two"}}, "required": ["kind"]},
                ],
            },
            "One": {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        });
        lift(definitions.as_object_mut().unwrap(), "#/p/");
        assert_eq!(
            definitions["Ref"],
            json!({
                "description": "A ref.",
                "oneOf": [{"$ref": "#/p/LocalOneRef"}, {"$ref": "#/p/TwoRef"}],
                "discriminator": {
                    "propertyName": "kind",
                    "mapping": {"local_one": "#/p/LocalOneRef", "two": "#/p/TwoRef"},
                },
            })
        );
        assert_eq!(
            definitions["LocalOneRef"]["required"],
            json!(["seq", "kind", "name"])
        );
        assert_eq!(definitions["LocalOneRef"]["description"], json!("One."));
    }
}
