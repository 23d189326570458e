//! The walk over a value and its schema.

use serde_json::{Map, Value};

use super::{ISSUES_MAX, InputIssue, Union, enum_words, required, type_word, types, union};
use crate::time;

pub(super) fn walk(schema: &Value, value: &Value, path: &str, issues: &mut Vec<InputIssue>) {
    if issues.len() >= ISSUES_MAX {
        return;
    }
    let mut refuse = |message: String| {
        issues.push(InputIssue {
            path: path.to_owned(),
            message,
        });
    };
    let types = types(schema);
    if !types.is_empty() && !types.iter().any(|word| is_of_type(value, word)) {
        return refuse(format!("must be {}", article(type_word(schema))));
    }
    if value.is_null() && types.contains(&"null") {
        return;
    }
    if let Some(union) = union(schema) {
        return walk_union(&union, value, path, issues);
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return refuse(format!("must be {only}"));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let words = enum_words(schema).unwrap_or_default().replace('|', ", ");
        return refuse(format!("must be one of: {words}"));
    }
    if let Some(Value::Array(variants)) = schema.get("oneOf") {
        return walk_variants(variants, value, path, issues);
    }
    match value {
        Value::String(text) => {
            if let Some(message) = text_problem(schema, text) {
                refuse(message);
            }
        }
        Value::Number(number) => {
            if let Some(message) = number_problem(schema, number.as_f64().unwrap_or_default()) {
                refuse(message);
            }
        }
        Value::Array(values) => walk_array(schema, values, path, issues),
        Value::Object(fields) => walk_object(schema, fields, path, issues),
        Value::Null | Value::Bool(_) => {}
    }
}

fn walk_union(union: &Union<'_>, value: &Value, path: &str, issues: &mut Vec<InputIssue>) {
    let at = |name: &str| joined(path, name);
    let Value::Object(fields) = value else {
        return issues.push(InputIssue {
            path: path.to_owned(),
            message: "must be an object".to_owned(),
        });
    };
    let words = union.words().replace('|', ", ");
    match union.variant(fields.get(union.tag)) {
        Some(variant) => walk(variant, value, path, issues),
        None => issues.push(InputIssue {
            path: at(union.tag),
            message: match fields.contains_key(union.tag) {
                true => format!("must be one of: {words}"),
                false => format!("is required: one of {words}"),
            },
        }),
    }
}

/// Exactly one variant must fit. What is wrong is told of the variant whose required fields are there.
fn walk_variants(variants: &[Value], value: &Value, path: &str, issues: &mut Vec<InputIssue>) {
    let problems = |variant: &Value| {
        let mut problems = Vec::new();
        walk(variant, value, path, &mut problems);
        problems
    };
    let fitting = variants
        .iter()
        .filter(|variant| problems(variant).is_empty())
        .count();
    if fitting == 1 {
        return;
    }
    let has_required = |variant: &&Value| {
        required(variant)
            .iter()
            .all(|name| value.get(name).is_some())
    };
    let meant: Vec<&Value> = variants.iter().filter(has_required).collect();
    match meant.as_slice() {
        [one] => issues.extend(problems(one)),
        _ => issues.push(InputIssue {
            path: path.to_owned(),
            message: "must have exactly one of the allowed forms".to_owned(),
        }),
    }
}

fn walk_array(schema: &Value, values: &[Value], path: &str, issues: &mut Vec<InputIssue>) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let count = values.len() as u64;
    let (min, max) = (bound("minItems"), bound("maxItems"));
    if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
        issues.push(InputIssue {
            path: path.to_owned(),
            message: format!("must have {} entries", range(min, max)),
        });
        return;
    }
    if let Some(items) = schema.get("items") {
        for (index, value) in values.iter().enumerate() {
            walk(items, value, &format!("{path}[{index}]"), issues);
        }
    }
}

fn walk_object(
    schema: &Value,
    fields: &Map<String, Value>,
    path: &str,
    issues: &mut Vec<InputIssue>,
) {
    let known = schema.get("properties").and_then(Value::as_object);
    for name in required(schema) {
        if !fields.contains_key(name) {
            issues.push(InputIssue {
                path: joined(path, name),
                message: "is required".to_owned(),
            });
        }
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in fields {
        match known.and_then(|known| known.get(name)) {
            Some(field) => walk(field, value, &joined(path, name), issues),
            None if closed => issues.push(InputIssue {
                path: joined(path, &excerpt(name)),
                message: "is not a field of this action".to_owned(),
            }),
            None => {}
        }
    }
    let least = schema.get("minProperties").and_then(Value::as_u64);
    if least.is_some_and(|least| (fields.len() as u64) < least) {
        issues.push(InputIssue {
            path: path.to_owned(),
            message: "must have at least one field to change".to_owned(),
        });
    }
}

fn is_of_type(value: &Value, word: &str) -> bool {
    match word {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn text_problem(schema: &Value, text: &str) -> Option<String> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let (min, max) = (bound("minLength"), bound("maxLength"));
    let count = text.chars().count() as u64;
    if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
        return Some(format!("must have {} characters", range(min, max)));
    }
    match schema.get("format").and_then(Value::as_str)? {
        "date" if !time::is_date(text) => Some("must be a date, YYYY-MM-DD".to_owned()),
        "date-time" if time::datetime(text).is_none() => Some(
            "must be a time with a zone (RFC 3339), for example 2026-04-21T10:00:00+08:00"
                .to_owned(),
        ),
        "email" if !is_email(text) => Some("must be an email address with one @".to_owned()),
        "timezone" if !time::is_timezone(text) => {
            Some("must be a name of an IANA time zone, for example Europe/Oslo".to_owned())
        }
        _ => None,
    }
}

fn number_problem(schema: &Value, number: f64) -> Option<String> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let (min, max) = (bound("minimum"), bound("maximum"));
    let outside = min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max);
    outside.then(|| format!("must be {}", range(min, max)))
}

/// Whether a text has one `@` with something on both sides, and no spaces or control characters.
#[must_use]
pub fn is_email(text: &str) -> bool {
    let plain = text.len() <= 254 && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let mut parts = text.split('@');
    let filled = |part: Option<&str>| part.is_some_and(|part| !part.is_empty());
    plain && filled(parts.next()) && filled(parts.next()) && parts.next().is_none()
}

fn range<T: std::fmt::Display>(min: Option<T>, max: Option<T>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "any number of".to_owned(),
    }
}

fn article(word: &str) -> String {
    let vowel = word.starts_with(['a', 'e', 'i', 'o']);
    format!("{} {word}", if vowel { "an" } else { "a" })
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// A name of a field that the model invented, bounded.
fn excerpt(name: &str) -> String {
    name.chars().take(64).collect()
}

/// A JSON pointer as a path.
pub(super) fn dotted(pointer: &str) -> String {
    let parts = pointer.split('/').filter(|part| !part.is_empty());
    parts.fold(String::new(), |path, part| {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{path}[{part}]")
        } else {
            joined(&path, part)
        }
    })
}
