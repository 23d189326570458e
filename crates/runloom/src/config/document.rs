//! A configuration as a tree of values that know where they stand, with the environment laid over the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::table::Context;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line of the file, 1-based.
    Line(usize),
    /// A variable.
    Variable(Arc<str>),
    /// The file as a whole: something is missing.
    Whole,
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The keys of a table.
pub(super) type Entries = BTreeMap<String, Node>;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    Table(Entries),
}

impl Value {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "a boolean",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// The same as JSON, for what is kept as it was written.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.clone().into(),
            Self::Integer(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Boolean(value) => (*value).into(),
            Self::Array(nodes) => nodes.iter().map(|node| node.value.to_json()).collect(),
            Self::Table(entries) => entries
                .iter()
                .map(|(key, node)| (key.clone(), node.value.to_json()))
                .collect(),
        }
    }
}

/// Parses TOML. Every syntax error comes with its line.
pub(super) fn parse(text: &str) -> Result<Node, Vec<(usize, String)>> {
    let lines = Lines::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let located = |error: &toml::de::Error| {
            let line = error.span().map_or(1, |span| lines.at(span.start));
            (line, error.message().trim().to_owned())
        };
        return Err(errors.iter().map(located).collect());
    }
    Ok(Node {
        value: Value::Table(entries(root.get_ref(), &lines)),
        origin: Origin::Whole,
    })
}

/// Parses a single TOML value, for lists in variables.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Option<Value> {
    let node = parse(&format!("value = {text}")).ok()?;
    let Value::Table(mut entries) = node.value else {
        return None;
    };
    let mut node = entries.remove("value").filter(|_| entries.is_empty())?;
    if let Value::Array(nodes) = &mut node.value {
        nodes
            .iter_mut()
            .for_each(|node| node.origin = origin.clone());
    }
    Some(node.value)
}

fn entries(table: &DeTable<'_>, lines: &Lines) -> Entries {
    table
        .iter()
        .map(|(key, value)| {
            // The key's line: a table or a long value may begin further down.
            let line = lines.at(key.span().start);
            let node = Node {
                value: convert(value.get_ref(), lines),
                origin: Origin::Line(line),
            };
            (key.get_ref().to_string(), node)
        })
        .collect()
}

fn convert(value: &DeValue<'_>, lines: &Lines) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        // A number too large for its type becomes text, which no reader of numbers accepts.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Text(number.to_string()), Value::Integer),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| Value::Text(number.to_string()), Value::Float),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(values) => {
            let node = |value: &toml::Spanned<DeValue<'_>>| Node {
                value: convert(value.get_ref(), lines),
                origin: Origin::Line(lines.at(value.span().start)),
            };
            Value::Array(values.iter().map(node).collect())
        }
        DeValue::Table(table) => Value::Table(entries(table, lines)),
    }
}

/// Lays `RUNLOOM_<SECTION>__<KEY>` over the file, and the well-known URLs under it. A number is the place in an array:
/// `RUNLOOM_WORKSPACES__0__SLUG`.
pub(super) fn overlay(root: &mut Node, environment: &Environment, context: &Context<'_>) {
    for (variable, path) in environment.shared_settings() {
        let origin = Origin::Variable(variable.into());
        match environment.secret(variable) {
            Ok(Some(url)) => drop(put(root, &path.map(str::to_owned), url.expose(), &origin)),
            Ok(None) => {}
            Err(message) => context.problem(origin, "", message),
        }
    }
    let mut settings: Vec<_> = environment.settings().collect();
    // Entries come by their number: 2 before 10.
    settings.sort_by_cached_key(|(_, path, _)| {
        let step = |step: &String| (step.parse::<usize>().ok(), step.clone());
        path.iter().map(step).collect::<Vec<_>>()
    });
    for (name, path, value) in settings {
        let origin = Origin::Variable(name.into());
        if let Err(message) = put(root, &path, value, &origin) {
            context.problem(origin, &path.join("."), message);
        }
    }
}

fn put(node: &mut Node, path: &[String], text: &str, origin: &Origin) -> Result<(), String> {
    let Some((step, rest)) = path.split_first() else {
        node.value = Value::Text(text.to_owned());
        node.origin = origin.clone();
        return Ok(());
    };
    let is_place = |step: &String| step.parse::<usize>().is_ok();
    let empty = || Node {
        value: if rest.first().is_some_and(is_place) {
            Value::Array(Vec::new())
        } else {
            Value::Table(Entries::new())
        },
        origin: origin.clone(),
    };
    match &mut node.value {
        Value::Table(entries) => put(
            entries.entry(step.clone()).or_insert_with(empty),
            rest,
            text,
            origin,
        ),
        Value::Array(nodes) => {
            let index: usize = step
                .parse()
                .map_err(|_| format!("`{step}` must be a number: the place in an array"))?;
            if index == nodes.len() {
                nodes.push(empty());
            }
            let count = nodes.len();
            let node = nodes
                .get_mut(index)
                .ok_or_else(|| format!("`{index}` leaves a gap: the array has {count} entries, and they are numbered from 0"))?;
            put(node, rest, text, origin)
        }
        other => Err(format!("has nothing inside: it is {}", other.kind())),
    }
}

/// Byte offsets to lines.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
