//! Schemas of the types: one for requests (what is read) and one for responses (what is written). Where both are equal
//! they share a component; otherwise that of the request gets the suffix `Input`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{tidy, unions};
use crate::operation::Shape;
use crate::operation::shape::Schema;

const RESPONSES: &str = "#/components/schemas/";
const REQUESTS: &str = "#/components/requests/";

/// The schemas that the operations refer to.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
    named: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = |path: &'static str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings("/components/requests")
                .for_deserialize()
                .into_generator(),
            responses: settings("/components/schemas")
                .for_serialize()
                .into_generator(),
            named: Map::new(),
        }
    }

    /// The schema of a request body.
    pub(super) fn request(&mut self, shape: &Shape) -> Value {
        match shape.schema {
            Schema::Type(of) => of.0(&mut self.requests).to_value(),
            _ => self.other(shape),
        }
    }

    /// The schema of a response body, or of the events of a stream.
    pub(super) fn response(&mut self, shape: &Shape) -> Value {
        match shape.schema {
            Schema::Type(of) => of.0(&mut self.responses).to_value(),
            _ => self.other(shape),
        }
    }

    fn other(&mut self, shape: &Shape) -> Value {
        match shape.schema {
            Schema::Named(name, schema) => {
                self.named.insert(name.to_owned(), schema());
                json!({"$ref": format!("{RESPONSES}{name}")})
            }
            Schema::Type(_) | Schema::Text => json!({"type": "string"}),
        }
    }

    /// Puts the components into the document, and lets every reference point to them.
    pub(super) fn finish(mut self, document: &mut Value) {
        let mut requests = self.requests.take_definitions(true);
        let mut responses = self.responses.take_definitions(true);
        for (definitions, prefix) in [(&mut requests, REQUESTS), (&mut responses, RESPONSES)] {
            definitions.values_mut().for_each(tidy::schema);
            unions::lift(definitions, prefix);
        }
        responses.extend(self.named);
        let names = names(&requests, &responses);
        for (name, schema) in requests {
            responses.entry(&names[&name]).or_insert(schema);
        }
        document["components"]["schemas"] = Value::Object(responses);
        rename(document, &names);
        drop_unused(document);
        if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
            schemas.sort_keys();
        }
    }
}

/// The final name of every schema of a request.
fn names(
    requests: &Map<String, Value>,
    responses: &Map<String, Value>,
) -> BTreeMap<String, String> {
    let as_response = |schema: &Value| schema.to_string().replace(REQUESTS, RESPONSES);
    let own = |(name, schema): (&String, &Value)| {
        let other = responses.get(name)?.to_string();
        (as_response(schema) != other).then(|| name.clone())
    };
    let mut different: BTreeSet<String> = requests.iter().filter_map(own).collect();
    // A schema that refers to a different one is different, too.
    loop {
        let refers = |(name, schema): (&String, &Value)| {
            let text = schema.to_string();
            let found = different
                .iter()
                .any(|other| text.contains(&format!("\"{REQUESTS}{other}\"")));
            (found && responses.contains_key(name)).then(|| name.clone())
        };
        let more: BTreeSet<String> = requests.iter().filter_map(refers).collect();
        if more.is_subset(&different) {
            break;
        }
        different.extend(more);
    }
    let named = |name: &String| {
        let suffix = if different.contains(name) {
            "Input"
        } else {
            ""
        };
        (name.clone(), format!("{name}{suffix}"))
    };
    requests.keys().map(named).collect()
}

fn rename(node: &mut Value, names: &BTreeMap<String, String>) {
    match node {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix(REQUESTS) {
                *text = format!("{RESPONSES}{}", names[name]);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(map) => map.values_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

/// Removes the schemas that nothing refers to.
fn drop_unused(document: &mut Value) {
    loop {
        let text = document.to_string();
        let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
            return;
        };
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"{RESPONSES}{name}\"")));
        if schemas.len() == before {
            return;
        }
    }
}
