//! At the limit accepted, one over refused at the right place: the fields of a spec.

use runloom_protocol::spec::{Enforcement, LoopDetection};
use runloom_protocol::{limits, validate};
use serde_json::{Map, Value, json};

use crate::{only, run, run_with};

/// One row: a field, a value at the limit, a value past it, where the refusal points.
struct Row(&'static str, Value, Value, &'static str);

fn check(rows: Vec<Row>) {
    for Row(key, good, bad, path) in rows {
        if let Err(issues) = validate::create_run(&run_with(key, good)) {
            panic!("{key} at the limit of {path}: {issues:?}");
        }
        assert_eq!(only(validate::create_run(&run_with(key, bad))).path, path);
    }
}

fn numbered(count: usize, value: &Value) -> Value {
    let entries = (0..count).map(|i| (format!("k{i}"), value.clone()));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// An object whose JSON has exactly this many bytes.
fn object_of(bytes: usize) -> Value {
    let empty = json!({"d": ""}).to_string().len();
    json!({"d": "x".repeat(bytes - empty)})
}

/// An output schema whose JSON has exactly this many bytes.
fn schema_of(bytes: usize) -> Value {
    let frame = json!({"schema": {"d": ""}}).to_string().len();
    json!({"schema": object_of(bytes - frame + json!({"d": ""}).to_string().len())})
}

#[test]
fn the_numbers_of_the_contract_are_these() {
    assert_eq!(
        (limits::MESSAGES_MAX, limits::MESSAGE_MAX_CHARS),
        (200, 200_000)
    );
    assert_eq!(limits::OUTPUT_SCHEMA_MAX_BYTES, 32 * 1024);
    assert_eq!(limits::HEADER_VALUE_MAX_BYTES, 8 * 1024);
    assert_eq!(limits::TOOL_RESULT_MAX_BYTES, 2 * 1024 * 1024);
    assert_eq!(limits::TOOL_ERROR_MAX_BYTES, 8 * 1024);
    assert_eq!(limits::TOOL_FILES_MAX_BYTES, 5 * 1024 * 1024);
    assert_eq!(limits::MAX_TOOL_TURNS_DEFAULT, 32);
    assert_eq!(
        (limits::LOOP_CONSECUTIVE_DEFAULT, limits::LOOP_HARD_DEFAULT),
        (3, 6)
    );
}

#[test]
fn texts_are_counted_in_characters() {
    let max = limits::MESSAGE_MAX_CHARS;
    check(vec![
        Row(
            "prompt",
            json!("x".repeat(max)),
            json!("x".repeat(max + 1)),
            "prompt",
        ),
        Row(
            "prompt",
            json!("é".repeat(max)),
            json!("é".repeat(max + 1)),
            "prompt",
        ),
        Row(
            "systemPrompt",
            json!("x".repeat(max)),
            json!("x".repeat(max + 1)),
            "systemPrompt",
        ),
        Row(
            "name",
            json!("é".repeat(256)),
            json!("é".repeat(257)),
            "name",
        ),
        Row(
            "modelId",
            json!("m".repeat(256)),
            json!("m".repeat(257)),
            "modelId",
        ),
        Row(
            "fallbackModelId",
            json!("m".repeat(256)),
            json!("m".repeat(257)),
            "fallbackModelId",
        ),
        Row(
            "agentId",
            json!(format!("agent_{}", "a".repeat(64))),
            json!(format!("agent_{}", "a".repeat(65))),
            "agentId",
        ),
    ]);
}

#[test]
fn numbers_have_ranges() {
    let budget = |key: &str, value: Value| json!({key: value});
    check(vec![
        Row("reasoningLevel", json!(0), json!(-1), "reasoningLevel"),
        Row("reasoningLevel", json!(100), json!(101), "reasoningLevel"),
        Row("reasoningLevel", json!(50.0), json!(50.5), "reasoningLevel"),
        Row(
            "reasoningLevel",
            json!("high"),
            json!("max"),
            "reasoningLevel",
        ),
        Row(
            "reasoningLevel",
            json!("off"),
            json!(true),
            "reasoningLevel",
        ),
        Row(
            "budgets",
            budget("maxToolTurns", json!(1)),
            budget("maxToolTurns", json!(0)),
            "budgets.maxToolTurns",
        ),
        Row(
            "budgets",
            budget("maxToolTurns", json!(100)),
            budget("maxToolTurns", json!(101)),
            "budgets.maxToolTurns",
        ),
        Row(
            "budgets",
            budget("maxWallMs", json!(1)),
            budget("maxWallMs", json!(0)),
            "budgets.maxWallMs",
        ),
        Row(
            "budgets",
            budget("maxWallMs", json!(limits::INTEGER_MAX)),
            budget("maxWallMs", json!(limits::INTEGER_MAX + 1)),
            "budgets.maxWallMs",
        ),
        Row(
            "budgets",
            budget("maxOutputTokens", json!(1)),
            budget("maxOutputTokens", json!(0)),
            "budgets.maxOutputTokens",
        ),
        Row(
            "budgets",
            budget("maxCostUsd", json!(0.001)),
            budget("maxCostUsd", json!(0)),
            "budgets.maxCostUsd",
        ),
        Row(
            "budgets",
            budget("maxCostUsd", json!(1)),
            budget("maxCostUsd", json!("1")),
            "budgets.maxCostUsd",
        ),
    ]);
}

#[test]
fn messages_have_limits() {
    let message = |content: Value| json!({"role": "user", "content": content});
    let messages = |count: usize| json!(vec![message(json!("Hi")); count]);
    let with = |messages: Value| json!({"systemPrompt": "s", "messages": messages});
    let accepted = validate::create_run(&with(messages(limits::MESSAGES_MAX))).unwrap();
    assert_eq!(accepted.messages.len(), 200);
    assert_eq!(
        only(validate::create_run(&with(messages(
            limits::MESSAGES_MAX + 1
        ))))
        .path,
        "messages"
    );
    assert_eq!(
        only(validate::create_run(&with(json!([])))).path,
        "messages"
    );
    let max = limits::MESSAGE_MAX_CHARS;
    assert!(validate::create_run(&with(json!([message(json!("é".repeat(max)))]))).is_ok());
    let long = with(json!([
        message(json!("Hi")),
        message(json!("x".repeat(max + 1)))
    ]));
    assert_eq!(
        only(validate::create_run(&long)).path,
        "messages[1].content"
    );
    let part = json!({"type": "text", "text": "x"});
    let parts = |count: usize| with(json!([message(json!(vec![part.clone(); count]))]));
    assert!(validate::create_run(&parts(limits::MESSAGE_PARTS_MAX)).is_ok());
    assert_eq!(
        only(validate::create_run(&parts(limits::MESSAGE_PARTS_MAX + 1))).path,
        "messages[0].content"
    );
}

#[test]
fn output_schemas_have_limits() {
    let named = |name: String| json!({"name": name, "schema": {}});
    check(vec![
        Row(
            "outputSchema",
            schema_of(32 * 1024),
            schema_of(32 * 1024 + 1),
            "outputSchema",
        ),
        Row(
            "outputSchema",
            named("a-_9".repeat(16)),
            named("a".repeat(65)),
            "outputSchema.name",
        ),
        Row(
            "outputSchema",
            named("a".into()),
            named(String::new()),
            "outputSchema.name",
        ),
        Row(
            "outputSchema",
            named("a".into()),
            named("a b".into()),
            "outputSchema.name",
        ),
        Row(
            "outputSchema",
            json!({"schema": {}}),
            json!({"schema": []}),
            "outputSchema.schema",
        ),
        Row(
            "outputSchema",
            json!({"schema": {}}),
            json!({"name": "x"}),
            "outputSchema.schema",
        ),
        Row(
            "outputSchema",
            json!({"schema": {}, "enforcement": "strict"}),
            json!({"schema": {}, "enforcement": "hard"}),
            "outputSchema.enforcement",
        ),
    ]);
}

#[test]
fn the_output_schema_has_defaults() {
    let schema = |value: Value| {
        validate::create_run(&run_with("outputSchema", value))
            .unwrap()
            .spec
            .output_schema
            .unwrap()
    };
    let plain = schema(json!({"schema": {"type": "object"}, "name": null}));
    assert_eq!(
        (plain.name.as_str(), plain.enforcement),
        ("output", Enforcement::BestEffort)
    );
    let strict = schema(json!({"schema": {}, "name": "n", "enforcement": "strict"}));
    assert_eq!(
        (strict.name.as_str(), strict.enforcement),
        ("n", Enforcement::Strict)
    );
}

#[test]
fn reasoning_words_are_anchors() {
    for (word, level) in [("off", 0), ("low", 30), ("medium", 50), ("high", 80)] {
        let run = validate::create_run(&run_with("reasoningLevel", json!(word))).unwrap();
        assert_eq!(run.spec.reasoning_level, Some(level));
    }
    assert_eq!(
        validate::create_run(&run()).unwrap().spec.reasoning_level,
        None
    );
}

#[test]
fn loop_thresholds_have_limits() {
    let soft = |n: i64| json!({"consecutiveThreshold": n});
    let hard = |n: i64| json!({"hardCutoffThreshold": n});
    let both =
        |soft: i64, hard: i64| json!({"consecutiveThreshold": soft, "hardCutoffThreshold": hard});
    let soft_path = "loopDetection.consecutiveThreshold";
    let hard_path = "loopDetection.hardCutoffThreshold";
    check(vec![
        Row("loopDetection", soft(2), soft(1), soft_path),
        Row("loopDetection", soft(100), soft(101), soft_path),
        Row("loopDetection", hard(3), hard(2), hard_path),
        Row("loopDetection", hard(100), hard(101), hard_path),
        Row("loopDetection", both(4, 5), both(5, 5), hard_path),
        Row("loopDetection", json!(false), json!(true), "loopDetection"),
        Row("loopDetection", json!({}), json!("off"), "loopDetection"),
    ]);
}

#[test]
fn a_threshold_alone_moves_the_default_of_the_other() {
    let on = |consecutive, hard| Some(LoopDetection::On { consecutive, hard });
    let table = [
        (json!({}), on(3, 6)),
        (json!({"consecutiveThreshold": 5}), on(5, 6)),
        (json!({"consecutiveThreshold": 6}), on(6, 7)),
        (json!({"consecutiveThreshold": 100}), on(100, 101)),
        (json!({"hardCutoffThreshold": 3}), on(2, 3)),
        (
            json!({"hardCutoffThreshold": 4, "consecutiveThreshold": null}),
            on(3, 4),
        ),
        (json!({"hardCutoffThreshold": 50}), on(3, 50)),
        (json!(false), Some(LoopDetection::Off)),
        (json!(null), None),
    ];
    for (value, wanted) in table {
        let run = validate::create_run(&run_with("loopDetection", value.clone())).unwrap();
        assert_eq!(run.spec.loop_detection, wanted, "{value}");
    }
}

#[test]
fn tool_budgets_have_limits() {
    let one = json!({"maxCalls": 1});
    let named = |name: String| json!({name: {"maxCalls": 0}});
    let path: &'static str = Box::leak(format!("toolBudgets.{}…", "é".repeat(80)).into_boxed_str());
    check(vec![
        Row(
            "toolBudgets",
            numbered(32, &one),
            numbered(33, &one),
            "toolBudgets",
        ),
        Row(
            "toolBudgets",
            named("é".repeat(120)),
            named("é".repeat(121)),
            path,
        ),
        Row(
            "toolBudgets",
            named("x".into()),
            named(String::new()),
            "toolBudgets.",
        ),
        Row(
            "toolBudgets",
            json!({"f": {"maxCalls": 1000}}),
            json!({"f": {"maxCalls": 1001}}),
            "toolBudgets.f.maxCalls",
        ),
        Row(
            "toolBudgets",
            json!({"f": {"maxCalls": 0}}),
            json!({"f": {"maxCalls": -1}}),
            "toolBudgets.f.maxCalls",
        ),
        Row(
            "toolBudgets",
            json!({}),
            json!({"f": {}}),
            "toolBudgets.f.maxCalls",
        ),
        Row("toolBudgets", json!({}), json!({"f": 3}), "toolBudgets.f"),
        Row("toolBudgets", json!({}), json!([]), "toolBudgets"),
    ]);
    let cleared = validate::create_run(&run_with("toolBudgets", json!({}))).unwrap();
    assert_eq!(cleared.spec.tool_budgets, Some([].into()));
    assert_eq!(
        validate::create_run(&run()).unwrap().spec.tool_budgets,
        None
    );
}

#[test]
fn metadata_has_limits() {
    let long_key = "a".repeat(65);
    let path: &'static str = Box::leak(format!("metadata.{long_key}").into_boxed_str());
    check(vec![
        Row(
            "metadata",
            numbered(16, &json!("v")),
            numbered(17, &json!("v")),
            "metadata",
        ),
        Row(
            "metadata",
            json!({"a".repeat(64): "v"}),
            json!({long_key: "v"}),
            path,
        ),
        Row(
            "metadata",
            json!({"A.z_0-9": "v"}),
            json!({"my key": "v"}),
            "metadata.my key",
        ),
        Row("metadata", json!({"a": ""}), json!({"": "v"}), "metadata."),
        Row(
            "metadata",
            json!({"k": "é".repeat(256)}),
            json!({"k": "é".repeat(257)}),
            "metadata.k",
        ),
        Row("metadata", json!({"k": "1"}), json!({"k": 1}), "metadata.k"),
        Row("metadata", json!({}), json!({"k": null}), "metadata.k"),
        Row("metadata", json!({}), json!(["k"]), "metadata"),
        Row("metadata", metadata_of(4096), metadata_of(4097), "metadata"),
    ]);
}

/// Metadata whose JSON has exactly this many bytes, each entry being legal by itself.
fn metadata_of(bytes: usize) -> Value {
    let mut metadata = numbered(14, &json!("x".repeat(256)));
    metadata["pad"] = json!("");
    let missing = bytes - metadata.to_string().len();
    metadata["pad"] = json!("é".repeat(missing / 2) + &"x".repeat(missing % 2));
    assert_eq!(metadata.to_string().len(), bytes);
    metadata
}
