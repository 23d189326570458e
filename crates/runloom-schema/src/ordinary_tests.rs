//! Schemas as people write them: accepted, and checked correctly.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{SchemaCache, SchemaErrorKind, Violation, compile_off_thread};

fn check(schema: &Value, value: &Value) -> Result<(), Vec<Violation>> {
    SchemaCache::new()
        .compile(schema)
        .unwrap_or_else(|error| panic!("{schema} is refused: {error}"))
        .check(value)
}

#[test]
fn schemas_of_every_draft_accept_and_refuse() {
    let draft = |name: &str| format!("http://json-schema.org/{name}/schema#");
    let cases = [
        (
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
            json!({"n": 1}),
            json!({"n": "1"}),
        ),
        (
            json!({"$schema": draft("draft-04"), "id": "http://example.com/s", "maximum": 3, "exclusiveMaximum": true}),
            json!(2),
            json!(3),
        ),
        (
            json!({"$schema": draft("draft-06"), "exclusiveMaximum": 3, "definitions": {}}),
            json!(2),
            json!(3),
        ),
        (
            json!({"$schema": draft("draft-07"), "$ref": "#/definitions/In",
                   "definitions": {"In": {"type": "object", "required": ["a"]}}}),
            json!({"a": 1}),
            json!({}),
        ),
        (
            json!({"$schema": draft("draft-07"), "items": [{"type": "string"}], "additionalItems": false}),
            json!(["a"]),
            json!(["a", 2]),
        ),
        (
            json!({"$schema": "https://json-schema.org/draft/2019-09/schema",
                   "properties": {"a": true}, "unevaluatedProperties": false}),
            json!({"a": 1}),
            json!({"b": 1}),
        ),
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema",
                   "$id": "https://example.com/a.schema.json",
                   "prefixItems": [{"$ref": "#/$defs/s"}], "$defs": {"s": {"type": "string"}}}),
            json!(["a"]),
            json!([1]),
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 0}}),
            json!({"a": 1, "b": 1}),
            json!({"c": 1}),
        ),
        (
            json!({"patternProperties": {"^x-": {"type": "null"}}}),
            json!({"x-a": null}),
            json!({"x-a": 1}),
        ),
        (json!(true), json!(1), json!(null)),
    ];
    for (schema, good, bad) in cases {
        assert_eq!(check(&schema, &good), Ok(()), "{schema}");
        if schema != json!(true) {
            assert!(check(&schema, &bad).is_err(), "{schema}");
        }
    }
}

#[test]
fn recursion_through_properties_and_items_is_allowed() {
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "#/$defs/node"}}},
        "required": ["name"],
    }}});
    let mut value = json!({"name": "leaf"});
    for _ in 0..40 {
        value = json!({"name": "n", "children": [value, {"name": "other"}]});
    }
    assert_eq!(check(&tree, &value), Ok(()));
    let violations = check(&tree, &json!({"name": "n", "children": [{}]})).unwrap_err();
    assert_eq!(violations[0].path, "/children/0");

    let whole = json!({"additionalProperties": {"$ref": "#"}, "type": "object"});
    assert_eq!(check(&whole, &json!({"a": {"b": {}}})), Ok(()));
    assert!(check(&whole, &json!({"a": {"b": 1}})).is_err());
}

#[test]
fn anchors_and_dynamic_references_inside_the_schema_work() {
    let cases = [
        json!({"properties": {"a": {"$ref": "#text"}}, "$defs": {"t": {"$anchor": "text", "type": "string"}}}),
        json!({"properties": {"a": {"$dynamicRef": "#text"}}, "$defs": {"t": {"$dynamicAnchor": "text", "type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#",
               "properties": {"a": {"$ref": "#text"}}, "definitions": {"t": {"$id": "#text", "type": "string"}}}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema",
               "type": ["object", "string"], "properties": {"a": {"$recursiveRef": "#"}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/a~1b%25"}}, "$defs": {"a/b%": {"type": "string"}}}),
    ];
    for schema in cases {
        assert_eq!(check(&schema, &json!({"a": "x"})), Ok(()), "{schema}");
        assert!(check(&schema, &json!({"a": 1})).is_err(), "{schema}");
    }
}

#[test]
fn identifiers_that_only_repeat_their_place_do_no_harm() {
    for draft in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({"$schema": draft, "$id": "https://example.com/root.json",
            "properties": {"a": {"$id": "#/properties/a", "type": "string"}}});
        assert_eq!(check(&schema, &json!({"a": "x"})), Ok(()));
        assert!(check(&schema, &json!({"a": 1})).is_err());
    }
}

#[test]
fn names_that_look_like_keywords_are_only_names() {
    let schema = json!({"properties": {
        "$ref": {"type": "string"}, "$id": {"type": "string"}, "id": {"type": "integer"}, "$schema": {"const": 1},
    }, "default": {"$ref": "http://example.com/never"}, "examples": [{"$id": "x"}]});
    assert_eq!(
        check(&schema, &json!({"$ref": "a", "id": 1, "$schema": 1})),
        Ok(())
    );
    assert!(check(&schema, &json!({"$ref": 1})).is_err());
}

#[test]
fn format_is_an_annotation() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"});
    assert_eq!(check(&schema, &json!("nobody")), Ok(()));
}

#[test]
fn look_ahead_patterns_of_common_generators_work() {
    let schema = json!({"type": "string",
        "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"});
    assert_eq!(check(&schema, &json!("ada.l@example.com")), Ok(()));
    assert!(check(&schema, &json!("ada..l@example.com")).is_err());
}

#[test]
fn violations_say_where_and_stay_short() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let many: serde_json::Map<_, _> = (0..50)
        .map(|n| (format!("k{n}"), json!("x".repeat(9_000))))
        .collect();
    let violations = check(&schema, &Value::Object(many)).unwrap_err();
    assert_eq!(violations.len(), 5);
    assert_eq!(violations[0].path, "/k0");
    assert!(
        violations
            .iter()
            .all(|v| v.message.chars().count() <= 301 && !v.message.contains("xxx"))
    );

    let violations = check(&json!({"enum": ["red", "green"]}), &json!("blue")).unwrap_err();
    assert_eq!(
        violations,
        [Violation {
            path: String::new(),
            message: r#""blue" is not one of "red" or "green""#.to_owned(),
        }]
    );
}

#[test]
fn an_equal_schema_is_built_once() {
    let cache = SchemaCache::new();
    let schema = json!({"type": "string"});
    let first = cache.compile(&schema).unwrap();
    let second = cache.compile(&json!({"type": "string"})).unwrap();
    assert!(Arc::ptr_eq(&first.inner, &second.inner));
    assert_eq!(cache.len(), 1);
}

#[test]
fn the_cache_forgets_what_was_used_least_recently() {
    let cache = SchemaCache::new();
    let schema = |n: usize| json!({"const": n});
    let kept = cache.compile(&schema(0)).unwrap();
    for n in 1..=super::limits::CACHED {
        cache.compile(&schema(n)).unwrap();
        cache.compile(&schema(0)).unwrap();
    }
    assert_eq!(cache.len(), super::limits::CACHED);
    assert!(Arc::ptr_eq(
        &kept.inner,
        &cache.compile(&schema(0)).unwrap().inner
    ));
}

#[tokio::test]
async fn building_off_the_thread_gives_the_same() {
    let cache = Arc::new(SchemaCache::new());
    let schema = Arc::new(json!({"type": "string"}));
    let built = compile_off_thread(Arc::clone(&cache), Arc::clone(&schema))
        .await
        .unwrap();
    assert!(built.check(&json!(1)).is_err());
    let known = compile_off_thread(Arc::clone(&cache), schema)
        .await
        .unwrap();
    assert!(Arc::ptr_eq(&built.inner, &known.inner));
    let refused = compile_off_thread(cache, Arc::new(json!({"type": "strin"})))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, SchemaErrorKind::Invalid);
}
