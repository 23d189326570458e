//! Generates the OpenAPI document from the route table and the protocol types, and compares it with the committed file.

mod document;
mod schemas;
mod tidy;
mod unions;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::routes;

/// Set by `cargo xtask openapi`: the file is written instead of compared.
const UPDATE: &str = "RUNLOOM_UPDATE_OPENAPI";

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

fn generated() -> String {
    let mut text = serde_json::to_string_pretty(&document::document()).unwrap();
    text.push('\n');
    text
}

#[test]
fn committed_document_is_current() {
    let generated = generated();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(PATH, generated).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(PATH).unwrap();
    let differs = generated
        .lines()
        .zip(committed.lines())
        .position(|(new, old)| new != old);
    if let Some(line) = differs.or((generated.len() != committed.len()).then_some(0)) {
        let show = |text: &str| text.lines().nth(line).unwrap_or_default().to_owned();
        panic!(
            "crates/runloom-http/openapi.json differs from the types and the route table at line {}:\n  \
             file:      {}\n  generated: {}\nRun `cargo xtask openapi` and commit the result.",
            line + 1,
            show(&committed),
            show(&generated),
        );
    }
}

#[test]
fn operation_ids_are_unique() {
    let mut ids = BTreeSet::new();
    for route in routes::all() {
        let id = route.operation.id;
        assert!(ids.insert(id.clone()), "{id} twice");
    }
}

#[test]
fn every_operation_is_described() {
    for route in routes::all() {
        let (path, operation) = (&route.path, &route.operation);
        let id = &operation.id;
        assert!(!operation.summary.is_empty(), "{id} has no summary");
        assert!(!operation.successes.is_empty(), "{id} returns nothing");
        let names_something = path.contains("{id}");
        assert_eq!(
            names_something,
            !operation.target.is_empty(),
            "{id}: `target` says what `{{id}}` in {path} names"
        );
    }
}

#[test]
fn every_schema_and_field_has_a_description() {
    let document = document::document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut missing = Vec::new();
    for (name, schema) in schemas {
        if schema.get("description").is_none() {
            missing.push(name.clone());
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (field, property) in properties.into_iter().flatten() {
            // A constant needs no words, and a reference leads to a description.
            let speaks = ["description", "const", "$ref"];
            if !speaks.iter().any(|keyword| property.get(keyword).is_some()) {
                missing.push(format!("{name}.{field}"));
            }
        }
    }
    assert!(missing.is_empty(), "no doc comment: {missing:?}");
}
