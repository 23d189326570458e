//! Schemas and values meant to hurt. Without the caps these tests would not fail but hang, exhaust memory or abort.

use serde_json::{Map, Value, json};

use super::{SchemaCache, SchemaError, SchemaErrorKind, Validator};

fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    SchemaCache::new().compile(schema)
}

fn refused(schema: &Value) -> SchemaError {
    compile(schema).expect_err("the schema must be refused")
}

/// Runs on a thread with the stack that blocking and async threads have.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    thread.spawn(work).unwrap().join().unwrap();
}

/// `levels` definitions, each made from the reference to the next.
fn chain(levels: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        defs.insert(format!("l{level}"), link(next));
    }
    defs.insert(format!("l{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/l0", "$defs": defs})
}

#[test]
fn doubling_references_are_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = chain(30, |next| json!({keyword: [next, next]}));
        let error = refused(&schema);
        assert_eq!(error.kind, SchemaErrorKind::TooLarge, "{keyword}");
        assert!(error.path.starts_with("/$defs/l"), "{error}");
        assert!(error.message.contains("10000 subschemas"), "{error}");
    }
    let conditions = chain(30, |next| json!({"if": next, "then": next, "else": next}));
    assert_eq!(refused(&conditions).kind, SchemaErrorKind::TooLarge);
    let dependent = chain(
        30,
        |next| json!({"dependentSchemas": {"a": next, "b": next}}),
    );
    assert_eq!(refused(&dependent).kind, SchemaErrorKind::TooLarge);
    let negated = chain(30, |next| json!({"not": {"allOf": [next, {"not": next}]}}));
    assert_eq!(refused(&negated).kind, SchemaErrorKind::TooLarge);
    let unevaluated = chain(
        30,
        |next| json!({"allOf": [next], "unevaluatedProperties": false}),
    );
    assert_eq!(refused(&unevaluated).kind, SchemaErrorKind::TooLarge);
}

#[test]
fn doubling_over_properties_costs_only_what_the_value_has() {
    let schema = chain(30, |next| json!({"properties": {"a": next, "b": next}}));
    let validator = compile(&schema).unwrap();
    assert!(validator.check(&json!({"a": {"b": {"a": 1}}})).is_ok());
}

#[test]
fn long_chains_of_references_do_not_exhaust_the_stack() {
    on_a_small_stack(|| {
        let error = refused(&chain(3_000, |next| json!({"allOf": [next]})));
        assert_eq!(error.kind, SchemaErrorKind::TooLarge);
        compile(&chain(40, |next| json!({"allOf": [next]}))).unwrap();
        compile(&chain(3_000, |next| json!({"properties": {"a": next}}))).unwrap();
    });
}

#[test]
fn deep_nesting_is_refused_before_anything_recursive_sees_it() {
    on_a_small_stack(|| {
        let mut schema = json!({"type": "string"});
        for _ in 0..500 {
            schema = json!({"not": schema});
        }
        let error = refused(&schema);
        assert!(error.message.contains("96 levels"), "{error}");
    });
}

#[test]
fn the_deepest_allowed_schema_and_value_fit_the_stack() {
    on_a_small_stack(|| {
        let mut schema = json!({"type": "string"});
        for _ in 0..super::limits::MAX_DEPTH - 2 {
            schema = json!({"not": schema});
        }
        compile(&schema).unwrap().check(&json!(1)).ok();

        // Each level of the value goes through a chain of references, so the check is far deeper than the value. The
        // innermost value is wrong: collecting errors takes the most stack.
        let mut schema = chain(40, |next| json!({"anyOf": [next]}));
        schema["$defs"]["l40"] =
            json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/l0"}}});
        let validator = compile(&schema).unwrap();
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"x": inner}));
        let too_deep = |levels: &usize| {
            let violations = validator.check(&nested(*levels)).unwrap_err();
            violations[0].message.contains("nested too deeply")
        };
        let deepest = (1..120).find(too_deep);
        assert_eq!(deepest, Some(7));
    });
}

#[test]
fn references_that_leave_the_schema_are_refused() {
    for target in [
        "http://127.0.0.1:9/schema.json",
        "https://example.com/schema.json#/a",
        "file:///etc/passwd",
        "//example.com/x",
        "/etc/passwd",
        "other.json",
        "urn:uuid:0190",
        "https://json-schema.org/draft/2020-12/schema",
        "%23/$defs/a",
        "",
    ] {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let error =
                refused(&json!({"properties": {"a": {keyword: target}}, "$defs": {"a": {}}}));
            assert_eq!(error.kind, SchemaErrorKind::Reference, "{keyword} {target}");
            assert_eq!(error.path, format!("/properties/a/{keyword}"));
        }
    }
}

#[test]
fn references_to_nothing_are_refused() {
    for target in [
        "#/$defs/none",
        "#none",
        "#/$defs/a/enum",
        "#/%zz",
        "#/$defs/a/enum/0",
    ] {
        let error = refused(&json!({"$ref": target, "$defs": {"a": {"enum": [1]}}}));
        assert_eq!(error.kind, SchemaErrorKind::Reference, "{target}");
    }
}

#[test]
fn addresses_cannot_redirect_references() {
    for id in [
        "http://127.0.0.1:9/",
        "file:///etc/",
        "other",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let error = refused(
            &json!({"properties": {"a": {"$id": id, "$ref": "#/$defs/b"}}, "$defs": {"b": {}}}),
        );
        assert_eq!(
            (error.kind, error.path.as_str()),
            (SchemaErrorKind::Reference, "/properties/a/$id")
        );
    }
    // A root that claims to be a draft's own schema still means itself.
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/nonNegativeInteger", "definitions": {"nonNegativeInteger": {"type": "string"}}});
    let validator = compile(&schema).unwrap();
    assert!(validator.check(&json!("a")).is_ok());
    assert!(validator.check(&json!(1)).is_err());
}

#[test]
fn unknown_drafts_are_refused_and_not_fetched() {
    for draft in [
        "http://127.0.0.1:9/meta",
        "file:///etc/passwd",
        "draft-07",
        "",
    ] {
        let error = refused(&json!({"$schema": draft}));
        assert_eq!(
            (error.kind, error.path.as_str()),
            (SchemaErrorKind::Invalid, "/$schema")
        );
    }
    let nested = json!({"properties": {"a": {"$schema": "http://127.0.0.1:9/meta"}}});
    assert_eq!(refused(&nested).path, "/properties/a/$schema");
}

#[test]
fn references_to_themselves_for_the_same_value_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"anyOf": [{"type": "string"}, {"not": {"$ref": "#"}}]}),
        json!({"$dynamicAnchor": "me", "if": {"$dynamicRef": "#me"}}),
        json!({"properties": {"a": {"$anchor": "x", "oneOf": [{"$ref": "#x"}]}}}),
    ] {
        let error = refused(&schema);
        assert!(error.message.contains("never end"), "{schema}: {error}");
    }
}

#[test]
fn recursive_alternatives_are_counted_and_not_tried() {
    let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {
        "properties": {"x": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
        "required": ["x"],
    }}});
    let validator = compile(&schema).unwrap();
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"x": inner}));
    assert!(
        !validator.check(&nested(4)).unwrap_err()[0]
            .message
            .contains("too long")
    );
    let violations = validator.check(&nested(60)).unwrap_err();
    assert!(violations[0].message.contains("too long"), "{violations:?}");
}

#[test]
fn wide_values_against_wide_alternatives_are_counted() {
    let alternatives: Vec<_> = (0..2_000).map(|n| json!({"const": n})).collect();
    let validator = compile(&json!({"items": {"anyOf": alternatives}})).unwrap();
    assert!(validator.check(&json!(vec![7; 50])).is_ok());
    let violations = validator.check(&json!(vec![-1; 100_000])).unwrap_err();
    assert!(violations[0].message.contains("too long"), "{violations:?}");
}

#[test]
fn long_simple_lists_pass_and_their_faults_are_found() {
    let validator = compile(&json!({"items": {"type": "integer", "minimum": 0}})).unwrap();
    assert!(validator.check(&json!(vec![1; 200_000])).is_ok());
    assert!(validator.check(&json!(vec![-1; 200_000])).is_err());
    let mut list = vec![1; 50_000];
    list[7] = -1;
    assert_eq!(validator.check(&json!(list)).unwrap_err()[0].path, "/7");
}

#[test]
fn many_or_large_patterns_are_refused() {
    let patterns = |count: usize, pattern: &str| {
        let one = |n: usize| (format!("p{n}"), json!({"pattern": format!("{pattern}{n}")}));
        json!({"properties": Value::Object((0..count).map(one).collect())})
    };
    assert_eq!(
        refused(&patterns(3_000, r"^[\p{L}\p{N}]+")).kind,
        SchemaErrorKind::TooLarge
    );
    assert_eq!(
        refused(&patterns(100, &"a".repeat(1_000))).kind,
        SchemaErrorKind::TooLarge
    );
    let keys: Map<_, _> = (0..3_000).map(|n| (format!("^k{n}"), json!({}))).collect();
    assert_eq!(
        refused(&json!({"patternProperties": keys})).kind,
        SchemaErrorKind::TooLarge
    );
    for pattern in [r"^(\p{L}{200}){200}$", "((a{100}){100}){100}", "(unclosed"] {
        let error = refused(&json!({"properties": {"a": {"pattern": pattern}}}));
        assert_eq!(error.kind, SchemaErrorKind::Invalid, "{pattern}");
    }
}

#[test]
fn catastrophic_patterns_are_harmless() {
    let text = json!(format!("{}!", "a".repeat(50_000)));
    for pattern in [r"^(a+)+$", r"^(a|aa)+$", r"^(a|a?)+$", r"(x+x+)+y"] {
        let validator = compile(&json!({"pattern": pattern})).unwrap();
        assert!(validator.check(&text).is_err(), "{pattern}");
    }
    // With look-around the engine backtracks, up to its limit.
    let validator = compile(&json!({"pattern": r"^(?=a)(a+)+(?!b)$"})).unwrap();
    assert!(validator.check(&text).is_err());
    let validator = compile(&json!({"pattern": r"^(a+)+\1$"})).unwrap();
    assert!(validator.check(&text).is_err());
}

#[test]
fn huge_schemas_are_refused() {
    let values: Vec<_> = (0..30_000).collect();
    assert!(
        refused(&json!({"enum": values}))
            .message
            .contains("20000 values")
    );
    let long = json!({"description": "x".repeat(300_000)});
    assert!(refused(&long).message.contains("bytes"));
    let values: Vec<_> = (0..10_000).collect();
    let validator = compile(&json!({"enum": values})).unwrap();
    let violations = validator.check(&json!("no")).unwrap_err();
    assert!(violations[0].message.chars().count() <= 301);
}

#[test]
fn what_is_no_schema_is_refused() {
    for (schema, path) in [
        (json!(1), ""),
        (json!("string"), ""),
        (json!([]), ""),
        (json!({"type": "strng"}), "/type"),
        (
            json!({"properties": {"a": {"minimum": "1"}}}),
            "/properties/a/minimum",
        ),
        (json!({"properties": {"a": 1}}), "/properties/a"),
        (json!({"required": "a"}), "/required"),
        (json!({"$ref": 1}), "/$ref"),
        (json!({"allOf": []}), "/allOf"),
    ] {
        let error = refused(&schema);
        assert_eq!(
            (error.kind, error.path.as_str()),
            (SchemaErrorKind::Invalid, path),
            "{error}"
        );
    }
}

#[test]
fn deeply_nested_patterns_do_not_exhaust_the_stack() {
    on_a_small_stack(|| {
        for levels in [200, 1_000, 8_000] {
            let (open, close) = ("(".repeat(levels), ")".repeat(levels));
            for pattern in [
                format!("{open}a{close}"),
                format!("(?=a){open}a{close}"),
                format!("{}a{close}", "(?=".repeat(levels / 2)),
                open,
            ] {
                // Refused or built: what counts is that the process lives.
                if let Ok(validator) = compile(&json!({"pattern": pattern})) {
                    validator.check(&json!("aaaa")).ok();
                }
            }
        }
    });
}
