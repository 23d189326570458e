//! The document and the router say the same.

use std::collections::BTreeSet;

use serde_json::Value;

fn document() -> Value {
    serde_json::from_str(runloom_http::OPENAPI).unwrap()
}

#[test]
fn documents_exactly_the_routes() {
    let document = document();
    let documented: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            let methods = methods.filter(|key| *key != "parameters");
            methods.map(|method| (path.clone(), method.clone()))
        })
        .collect();
    let routed: BTreeSet<(String, String)> = runloom_http::route_table()
        .into_iter()
        .map(|(method, path)| (path, method.to_owned()))
        .collect();
    let missing: Vec<_> = routed.difference(&documented).collect();
    let invented: Vec<_> = documented.difference(&routed).collect();
    assert!(missing.is_empty(), "not in openapi.json: {missing:?}");
    assert!(invented.is_empty(), "not in the router: {invented:?}");
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(root: &Value, node: &Value) {
        match node {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(root.pointer(pointer).is_some(), "dangling {reference}");
                }
                map.values().for_each(|value| check(root, value));
            }
            Value::Array(items) => items.iter().for_each(|value| check(root, value)),
            _ => {}
        }
    }
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    check(&document, &document);
}

#[test]
fn operations_have_ids_and_errors() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} twice");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{id}");
            if path.starts_with("/api/") {
                assert!(answers.contains_key("401"), "{id} without 401");
            }
        }
    }
}
