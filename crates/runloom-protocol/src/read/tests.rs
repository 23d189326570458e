//! The reader on small documents of both languages.

use serde_json::{Value, json};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Pretty,
    Json,
    Plain,
}

impl Keyword for Format {
    const ALL: &'static [Self] = &[Self::Pretty, Self::Json, Self::Plain];

    fn word(self) -> &'static str {
        match self {
            Self::Pretty => "pretty",
            Self::Json => "json",
            Self::Plain => "plain",
        }
    }
}

/// The errors of a reading, written out.
fn errors(
    options: ReaderOptions,
    document: &Value,
    read: impl FnOnce(&Fields<'_, '_>),
) -> Vec<String> {
    let reader = DocumentReader::new(options);
    read(&reader.root(document).fields_or_empty());
    let errors = reader.into_findings().errors;
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn reads_typed_values() {
    let document = json!({
        "name": "n", "count": 3.0, "share": 0.5, "on": true, "format": "json",
        "hosts": ["a", "b"], "none": null, "inner": {"deep": 1},
    });
    let reader = DocumentReader::new(ReaderOptions::json());
    let fields = reader.root(&document).fields_or_empty();
    assert_eq!(fields.text("name", 1), Some("n"));
    assert_eq!(fields.integer("count", 1..=3_u8), Some(3));
    let share = fields.get("share").unwrap().number("a share", |n| n <= 1.0);
    assert_eq!(share, Some(0.5));
    assert!(fields.flag("on"));
    assert_eq!(fields.keyword("format"), Some(Format::Json));
    assert_eq!(fields.strings("hosts", 2, 1).unwrap(), ["a", "b"]);
    assert!(fields.get("none").is_none());
    assert!(!fields.has("none"));
    let inner = fields.section("inner");
    assert_eq!(inner.integer("deep", 0..=9_u64), Some(1));
    inner.refuse_unread();
    fields.refuse_unread();
    assert_eq!(reader.finish(()), Ok(()));
}

#[test]
fn names_the_path_the_expectation_and_the_value() {
    let document = json!({
        "name": 1, "count": 4, "share": -1, "on": "yes", "format": "xml", "hosts": ["a", 2, "long"],
        "inner": [], "list": [{"id": ""}, {}],
    });
    let found = errors(ReaderOptions::json(), &document, |fields| {
        assert_eq!(fields.text("name", 1), None);
        assert_eq!(fields.integer("count", 1..=3_u32), None);
        let share = fields.get("share").unwrap();
        assert_eq!(share.number("a share", |n| n >= 0.0), None);
        assert!(!fields.flag("on"));
        assert_eq!(fields.keyword::<Format>("format"), None);
        assert_eq!(fields.strings("hosts", 3, 1).unwrap(), ["a"]);
        assert_eq!(fields.section("inner").text("x", 1), None);
        let ids = fields.list("list", 2, |node| node.fields()?.required_text("id", 9));
        assert_eq!(ids, Some(vec![]));
    });
    assert_eq!(
        found,
        [
            "name: expected a string, got a number",
            "count: expected an integer from 1 to 3, got 4",
            "share: expected a share, got -1",
            "on: expected true or false, got a string",
            "format: expected `pretty`, `json` or `plain`, got `xml`",
            "hosts[1]: expected a string, got a number",
            "hosts[2]: must be at most 1 characters, got 4",
            "inner: expected an object, got an array",
            "list[0].id: must not be empty",
            "list[1].id: is required",
        ]
    );
}

#[test]
fn names_tables_keys_and_integers_in_toml() {
    let document = json!({"server": 3, "listne": 1, "colour": {}});
    let found = errors(ReaderOptions::toml(), &document, |fields| {
        fields.section("server").refuse_unread();
        assert!(fields.fields("listen").is_none());
        fields.refuse_unread();
    });
    assert_eq!(
        found,
        [
            "server: expected a table, got an integer",
            "listne: unknown key; did you mean `listen`?",
            "colour: unknown key; known keys: server, listen",
        ]
    );
}

#[test]
fn parses_untyped_texts() {
    let document = json!({"count": " 3 ", "on": "1", "share": "0.5", "hosts": "a, b,", "name": "1", "bad": "x"});
    let untyped = ["count", "on", "share", "hosts", "name", "bad"].map(str::to_owned);
    let source = ReaderOptions {
        untyped: untyped.into_iter().collect(),
        ..ReaderOptions::toml()
    };
    let found = errors(source, &document, |fields| {
        assert_eq!(fields.integer("count", 1..=3_u64), Some(3));
        assert_eq!(fields.boolean("on"), Some(true));
        let share = fields.get("share").unwrap().number("a share", |_| true);
        assert_eq!(share, Some(0.5));
        assert_eq!(fields.strings("hosts", 9, 9).unwrap(), ["a", "b"]);
        assert_eq!(fields.text("name", 9), Some("1"));
        assert_eq!(fields.integer("bad", 1..=3_u64), None);
        assert_eq!(fields.boolean("bad"), None);
    });
    assert_eq!(
        found,
        [
            "bad: expected an integer from 1 to 3, got `x`",
            "bad: expected true or false, got `x`",
        ]
    );
}

#[test]
fn typed_texts_are_no_numbers() {
    let found = errors(ReaderOptions::toml(), &json!({"count": "3"}), |fields| {
        assert_eq!(fields.integer("count", 1..=3_u64), None);
    });
    assert_eq!(
        found,
        ["count: expected an integer from 1 to 3, got a string"]
    );
}

#[test]
fn refuses_only_misspellings_where_others_are_allowed() {
    let document = json!({"max_cost_usd": 1, "supervisor": 2});
    let found = errors(ReaderOptions::json(), &document, |fields| {
        fields.accept(&["maxCostUsd"]);
        fields.refuse_misspelt();
        let unread: Vec<_> = fields.unread().map(|(key, _)| key).collect();
        assert_eq!(unread, ["max_cost_usd", "supervisor"]);
    });
    assert_eq!(
        found,
        ["max_cost_usd: unknown field; did you mean `maxCostUsd`?"]
    );
}

#[test]
fn lists_a_bounded_number_of_errors() {
    let source = ReaderOptions {
        max_errors: 3,
        ..ReaderOptions::json()
    };
    let document: Value = (0..5).map(|n| (format!("k{n}"), json!(n))).collect();
    let found = errors(source, &document, |fields| {
        for (_, node) in fields.entries() {
            node.refuse("is wrong");
        }
    });
    assert_eq!(
        found,
        [
            "k0: is wrong",
            "k1: is wrong",
            "body: 3 further violations are not listed"
        ]
    );
}

#[test]
fn keeps_warnings_apart_from_errors() {
    let reader = DocumentReader::new(ReaderOptions::json());
    reader.root(&json!({})).fields_or_empty().warn("a", "odd");
    let findings = reader.into_findings();
    assert_eq!(findings.errors, []);
    assert_eq!(findings.warnings[0].to_string(), "a: odd");
}
