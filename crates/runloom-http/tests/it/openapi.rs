//! The OpenAPI document as it is served. That it is current is tested where it is generated.

use serde_json::{Value, json};

fn document() -> Value {
    serde_json::from_str(runloom_http::OPENAPI).unwrap()
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
fn every_operation_with_a_credential_documents_its_refusal() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            assert!(
                answers.keys().any(|status| status.starts_with('2')),
                "{method} {path}"
            );
            let is_open = operation["security"] == json!([]);
            assert_eq!(is_open, !answers.contains_key("401"), "{method} {path}");
        }
    }
}
