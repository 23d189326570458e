//! Makes a small valid instance of a JSON Schema, the demo model's response to an output schema.

use serde_json::{Map, Value, json};

use super::pattern;

/// Deepest nesting of schemas that is followed.
const MAX_DEPTH: usize = 24;

/// Most nodes that are made, over all alternatives that are tried.
const MAX_NODES: usize = 2_000;

/// Largest `minItems`, `minLength` or `minProperties` that is followed.
const MAX_LENGTH: u64 = 1_000;

/// A small instance of the schema. For a schema that cannot be satisfied it is only similar to one.
pub(super) fn of(schema: &Value) -> Value {
    let mut maker = Maker {
        root: schema,
        nodes: MAX_NODES,
    };
    maker.make(schema, 0, 0).unwrap_or_else(|| json!({}))
}

struct Maker<'a> {
    root: &'a Value,
    /// Number of nodes that may still be made.
    nodes: usize,
}

impl Maker<'_> {
    /// `variant` makes the items of an array differ. `None` = no instance within the limits.
    fn make(&mut self, schema: &Value, depth: usize, variant: u64) -> Option<Value> {
        self.nodes = self.nodes.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let Value::Object(schema) = schema else {
            return match schema {
                Value::Bool(false) => None,
                _ => Some(text(&Map::new(), variant)),
            };
        };
        let mut schema = schema.clone();
        for step in 0.. {
            if step > MAX_DEPTH {
                return None;
            }
            if let Some(Value::String(pointer)) = schema.remove("$ref") {
                merge(&mut schema, self.resolve(&pointer)?);
            } else if let Some(Value::Array(parts)) = schema.remove("allOf") {
                for part in parts {
                    merge(&mut schema, part);
                }
            } else {
                break;
            }
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = schema.remove(key) {
                return choices.into_iter().find_map(|choice| {
                    let mut chosen = schema.clone();
                    merge(&mut chosen, choice);
                    self.make(&Value::Object(chosen), depth + 1, variant)
                });
            }
        }
        self.make_plain(&schema, depth, variant)
    }

    fn make_plain(
        &mut self,
        schema: &Map<String, Value>,
        depth: usize,
        variant: u64,
    ) -> Option<Value> {
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let index = usize::try_from(variant).ok()? % values.len().max(1);
            return values.get(index).cloned();
        }
        if let Some(value) = schema.get("default").filter(|_| variant == 0) {
            return Some(value.clone());
        }
        types(schema)
            .into_iter()
            .find_map(|kind| match kind.as_str() {
                "object" => self.object(schema, depth),
                "array" => self.array(schema, depth),
                "integer" => Some(number(schema, Whole::Yes, variant)),
                "number" => Some(number(schema, Whole::No, variant)),
                "boolean" => Some(json!(variant.is_multiple_of(2))),
                "null" => Some(Value::Null),
                _ => Some(text(schema, variant)),
            })
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let empty = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut made = Map::new();
        let anything = json!(true);
        let others = schema.get("additionalProperties").unwrap_or(&anything);
        // In the order of the schema.
        for (name, property) in properties {
            if required.contains(&name.as_str()) {
                made.insert(name.clone(), self.make(property, depth + 1, 0)?);
            }
        }
        for name in required {
            if !made.contains_key(name) {
                made.insert(name.to_owned(), self.make(others, depth + 1, 0)?);
            }
        }
        let least = count(schema, "minProperties");
        for (name, property) in properties {
            if (made.len() as u64) < least && !made.contains_key(name) {
                made.insert(name.clone(), self.make(property, depth + 1, 0)?);
            }
        }
        for extra in 1..=least {
            if (made.len() as u64) < least {
                made.insert(format!("demo{extra}"), self.make(others, depth + 1, extra)?);
            }
        }
        Some(Value::Object(made))
    }

    fn array(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let (prefix, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(prefix)), rest) => (prefix.as_slice(), rest),
            (_, Some(Value::Array(tuple))) => (tuple.as_slice(), schema.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        let anything = json!(true);
        let rest = rest.unwrap_or(&anything);
        let mut items = Vec::new();
        if let Some(contained) = schema.get("contains").filter(|_| prefix.is_empty()) {
            let least = match schema.get("minContains") {
                None => 1,
                Some(_) => count(schema, "minContains"),
            };
            for variant in 0..least {
                items.push(self.make(contained, depth + 1, variant)?);
            }
        }
        for index in items.len() as u64..count(schema, "minItems") {
            let item = prefix.get(usize::try_from(index).ok()?).unwrap_or(rest);
            items.push(self.make(item, depth + 1, index)?);
        }
        Some(Value::Array(items))
    }

    fn resolve(&self, pointer: &str) -> Option<Value> {
        let pointer = pointer.strip_prefix('#')?;
        self.root.pointer(pointer).cloned()
    }
}

/// Merges a schema into another: required names add up, properties are merged, the narrower bound wins.
fn merge(into: &mut Map<String, Value>, from: Value) {
    let Value::Object(from) = from else {
        return;
    };
    for (key, value) in from {
        match (key.as_str(), into.get_mut(&key), value) {
            ("required", Some(Value::Array(have)), Value::Array(more)) => have.extend(more),
            ("properties" | "$defs", Some(Value::Object(have)), Value::Object(more)) => {
                for (name, property) in more {
                    match have.get_mut(&name) {
                        Some(Value::Object(known)) => merge(known, property),
                        _ => {
                            have.insert(name, property);
                        }
                    }
                }
            }
            ("allOf", Some(Value::Array(have)), Value::Array(more)) => have.extend(more),
            (
                "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties",
                Some(have),
                value,
            ) => {
                if value.as_f64() > have.as_f64() {
                    *have = value;
                }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", Some(have), value) => {
                if value.as_f64() < have.as_f64() {
                    *have = value;
                }
            }
            ("enum", Some(Value::Array(have)), Value::Array(other)) => {
                have.retain(|value| other.contains(value));
            }
            ("type", Some(have), other) => {
                let narrowed: Vec<Value> = words(have)
                    .into_iter()
                    .filter(|word| words(&other).contains(word))
                    .map(Value::String)
                    .collect();
                *have = Value::Array(narrowed);
            }
            (_, _, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn words(kind: &Value) -> Vec<String> {
    match kind {
        Value::String(word) => vec![word.clone()],
        Value::Array(words) => words
            .iter()
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

/// The types to try, `null` last.
fn types(schema: &Map<String, Value>) -> Vec<String> {
    if let Some(kind) = schema.get("type") {
        let mut kinds = words(kind);
        kinds.sort_by_key(|kind| kind == "null");
        return kinds;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    let kind = if has(&[
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
    ]) {
        "object"
    } else if has(&["items", "prefixItems", "minItems", "contains"]) {
        "array"
    } else if has(&[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]) {
        "number"
    } else {
        "string"
    };
    vec![kind.to_owned()]
}

fn count(schema: &Map<String, Value>, key: &str) -> u64 {
    schema
        .get(key)
        .and_then(Value::as_u64)
        .unwrap_or(0)
        .min(MAX_LENGTH)
}

fn text(schema: &Map<String, Value>, variant: u64) -> Value {
    let suffix = if variant == 0 {
        String::new()
    } else {
        (variant + 1).to_string()
    };
    let number = variant % 250 + 1;
    let mut text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => format!("2026-01-01T00:{:02}:00Z", variant % 60),
        Some("date") => format!("2026-01-{:02}", variant % 28 + 1),
        Some("time") => format!("12:{:02}:00Z", variant % 60),
        Some("duration") => format!("P{number}D"),
        Some("email" | "idn-email") => format!("demo{suffix}@example.com"),
        Some("uri" | "iri" | "uri-reference" | "iri-reference") => {
            format!("https://example.com/demo{suffix}")
        }
        Some("hostname" | "idn-hostname") => format!("demo{suffix}.example.com"),
        Some("ipv4") => format!("192.0.2.{number}"),
        Some("ipv6") => format!("2001:db8::{number}"),
        Some("uuid") => format!("00000000-0000-4000-8000-{variant:012}"),
        _ => format!("demo{suffix}"),
    };
    let least = count(schema, "minLength") as usize;
    let pattern = schema.get("pattern").and_then(Value::as_str);
    if let Some(matched) = pattern.and_then(|pattern| pattern::matching(pattern, least, variant)) {
        return Value::String(matched);
    }
    let length = text.chars().count();
    if length < least {
        text.extend(std::iter::repeat_n('x', least - length));
    }
    if let Some(most) = schema.get("maxLength").and_then(Value::as_u64)
        && (text.chars().count() as u64) > most
    {
        // Variants differ at their end.
        let skip = text.chars().count() - usize::try_from(most).unwrap_or(0);
        text = text.chars().skip(skip).collect();
    }
    Value::String(text)
}

#[derive(Clone, Copy, PartialEq)]
enum Whole {
    Yes,
    No,
}

fn number(schema: &Map<String, Value>, whole: Whole, variant: u64) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf")
        .filter(|step| *step > 0.0)
        .unwrap_or(1.0);
    let least = [bound("minimum"), bound("exclusiveMinimum")]
        .into_iter()
        .flatten()
        .reduce(f64::max);
    let most = [bound("maximum"), bound("exclusiveMaximum")]
        .into_iter()
        .flatten()
        .reduce(f64::min);
    let fits = |value: f64| {
        least.is_none_or(|least| value >= least)
            && most.is_none_or(|most| value <= most)
            && bound("exclusiveMinimum").is_none_or(|open| value > open)
            && bound("exclusiveMaximum").is_none_or(|open| value < open)
    };
    // In steps from a bound, or from zero.
    let start = match (least, most) {
        (Some(least), _) if !fits(0.0) => (least / step).ceil() * step,
        (None, Some(most)) if !fits(0.0) => (most / step).floor() * step,
        _ => 0.0,
    };
    let direction = if least.is_none() && most.is_some() {
        -step
    } else {
        step
    };
    let mut value = start + direction * variant as f64;
    if !fits(value) {
        value += direction;
    }
    if !fits(value)
        && whole == Whole::No
        && let (Some(least), Some(most)) = (least, most)
    {
        value = f64::midpoint(least, most);
    }
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return json!(value as i64);
    }
    json!(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_follow_their_schemas() {
        let table = [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": false}),
            json!({"type": "object", "required": ["a", "z"], "properties": {"a": {"const": 7}}, "additionalProperties": {"type": "boolean"}}),
            json!({"enum": ["x", "y"]}),
            json!({"type": "string", "minLength": 9, "maxLength": 12}),
            json!({"type": "string", "maxLength": 2}),
            json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$", "minLength": 8}),
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "integer", "minimum": 3, "maximum": 3}),
            json!({"type": "integer", "exclusiveMinimum": 3}),
            json!({"type": "integer", "maximum": -5}),
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            json!({"type": "number", "multipleOf": 7, "minimum": 10}),
            json!({"type": ["null", "boolean"]}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 3, "uniqueItems": true}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 3, "items": {"type": "boolean"}}),
            json!({"type": "array", "contains": {"const": 5}, "minItems": 2, "items": {"type": "integer"}}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"oneOf": [{"type": "object", "required": ["kind"], "properties": {"kind": {"const": "a"}}}, {"type": "null"}]}),
            json!({"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 4}, "b": {"type": "null"}}, "required": ["b"]}]}),
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["value", "next"], "properties": {"value": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}}),
            json!({"type": "object", "minProperties": 2, "properties": {"a": {"type": "null"}}}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "default": 12}}}),
        ];
        for schema in table {
            let instance = of(&schema);
            let validator = jsonschema::validator_for(&schema).unwrap();
            let problems: Vec<String> = validator
                .iter_errors(&instance)
                .map(|problem| problem.to_string())
                .collect();
            assert!(problems.is_empty(), "{schema} → {instance}: {problems:?}");
        }
    }

    #[test]
    fn hostile_schemas_end() {
        let endless = json!({"$defs": {"a": {"type": "object", "required": ["x", "y"], "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}}}}, "$ref": "#/$defs/a"});
        assert_eq!(of(&endless), json!({}));
        let mut wide = json!({"type": "string"});
        for _ in 0..40 {
            wide = json!({"allOf": [wide.clone(), {"$ref": "#/nowhere"}]});
        }
        of(&wide);
        of(&json!({"$ref": "#"}));
        of(
            &json!({"type": "array", "minItems": 4_000_000_000_u64, "items": {"type": "string", "minLength": 4_000_000_000_u64}}),
        );
        assert_eq!(of(&json!(false)), json!({}));
    }
}
