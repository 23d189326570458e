//! Reading a table: every key is asked for by name and type, every problem is collected, unknown keys are named.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

use super::document::{Entries, Node, Origin, Value, parse_value};
use super::environment::Environment;
use super::problem::{Invalid, Problem};
use super::types::{Config, Secret};

static NOTHING: Entries = Entries::new();

/// What a whole reading shares.
pub(super) struct Context<'a> {
    file: &'a str,
    pub(super) environment: &'a Environment,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(file: &'a str, environment: &'a Environment) -> Self {
        Self {
            file,
            environment,
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// The file's name, as it was given.
    pub(super) fn file(&self) -> &str {
        self.file
    }

    pub(super) fn problem(&self, origin: Origin, path: &str, message: impl fmt::Display) {
        self.problems
            .borrow_mut()
            .push(self.located(origin, path, message));
    }

    pub(super) fn warning(&self, origin: Origin, path: &str, message: impl fmt::Display) {
        self.warnings
            .borrow_mut()
            .push(self.located(origin, path, message));
    }

    fn located(&self, origin: Origin, path: &str, message: impl fmt::Display) -> Problem {
        Problem {
            place: match origin {
                Origin::Line(line) => format!("{}:{line}", self.file),
                Origin::Variable(name) => format!("environment variable {name}"),
                Origin::Whole => self.file.to_owned(),
            },
            path: path.to_owned(),
            message: message.to_string(),
        }
    }

    pub(super) fn into_invalid(self) -> Invalid {
        Invalid {
            problems: self.problems.into_inner(),
        }
    }

    pub(super) fn finish(self, mut config: Config) -> Result<Config, Invalid> {
        if self.problems.borrow().is_empty() {
            config.warnings = self.warnings.into_inner();
            Ok(config)
        } else {
            Err(self.into_invalid())
        }
    }
}

/// One table of the configuration.
pub(super) struct Table<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) path: String,
    pub(super) origin: Origin,
    entries: &'a Entries,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(super) fn of_node(context: &'a Context<'a>, path: String, node: &'a Node) -> Self {
        let entries = match &node.value {
            Value::Table(entries) => entries,
            other => {
                context.problem(
                    node.origin.clone(),
                    &path,
                    format!("must be a table, is {}", other.kind()),
                );
                &NOTHING
            }
        };
        Self {
            context,
            path,
            origin: node.origin.clone(),
            entries,
            known: RefCell::default(),
        }
    }

    /// A section; an empty one when it is not there.
    pub(super) fn section(&self, key: &'static str) -> Table<'a> {
        match self.node(key) {
            Some(node) => Self::of_node(self.context, self.path_of(key), node),
            None => Self {
                context: self.context,
                path: self.path_of(key),
                origin: Origin::Whole,
                entries: &NOTHING,
                known: RefCell::default(),
            },
        }
    }

    /// A table that may be left out.
    pub(super) fn table(&self, key: &'static str) -> Option<Table<'a>> {
        self.node(key)
            .map(|node| Self::of_node(self.context, self.path_of(key), node))
    }

    /// An array of tables.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Table<'a>> {
        match self.node(key).map(|node| &node.value) {
            None => Vec::new(),
            Some(Value::Array(nodes)) => {
                let table = |(index, node)| {
                    Self::of_node(
                        self.context,
                        format!("{}[{index}]", self.path_of(key)),
                        node,
                    )
                };
                nodes.iter().enumerate().map(table).collect()
            }
            Some(other) => {
                self.invalid(
                    key,
                    format!("must be an array of tables, is {}", other.kind()),
                );
                Vec::new()
            }
        }
    }

    /// A string that is not empty.
    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        match &self.node(key)?.value {
            Value::Text(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Text(_) => self.refuse(key, "must not be empty"),
            other => self.refuse(key, format!("must be a string, is {}", other.kind())),
        }
    }

    /// A string that must be there.
    pub(super) fn required(&self, key: &'static str) -> Option<String> {
        if self.node(key).is_none() {
            self.context.problem(
                self.origin.clone(),
                &self.path,
                format!("`{key}` is missing"),
            );
            return None;
        }
        self.text(key)
    }

    /// An integer in a range.
    pub(super) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.node(key)?;
        let number = match &node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) if is_variable(node) => match text.trim().parse() {
                Ok(number) => Some(number),
                Err(_) => return self.refuse(key, format!("must be an integer, is `{text}`")),
            },
            other => return self.refuse(key, format!("must be an integer, is {}", other.kind())),
        };
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None if *range.end() >= u64::from(u32::MAX) => {
                self.refuse(key, format!("must be at least {}", range.start()))
            }
            None => self.refuse(
                key,
                format!("must be from {} to {}", range.start(), range.end()),
            ),
        }
    }

    /// A price or the like: not negative.
    pub(super) fn number(&self, key: &'static str) -> Option<f64> {
        let node = self.node(key)?;
        let number = match &node.value {
            #[expect(clippy::cast_precision_loss, reason = "prices are small")]
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) if is_variable(node) => text.trim().parse().ok(),
            other => return self.refuse(key, format!("must be a number, is {}", other.kind())),
        };
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Some(number),
            None => self.refuse(key, "must be a number that is not negative"),
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        match &node.value {
            Value::Boolean(value) => Some(*value),
            Value::Text(text) if is_variable(node) => match text.trim() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => self.refuse(key, format!("must be true or false, is `{text}`")),
            },
            other => self.refuse(key, format!("must be true or false, is {}", other.kind())),
        }
    }

    /// Strings. A variable has them as a TOML array or separated by commas.
    pub(super) fn texts(&self, key: &'static str) -> Vec<String> {
        let Some(node) = self.node(key) else {
            return Vec::new();
        };
        let from_variable = match &node.value {
            Value::Text(text) if is_variable(node) && text.trim_start().starts_with('[') => {
                parse_value(text, &node.origin)
            }
            Value::Text(text) if is_variable(node) => {
                let parts = text
                    .split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty());
                return parts.map(str::to_owned).collect();
            }
            _ => None,
        };
        match from_variable.as_ref().unwrap_or(&node.value) {
            Value::Array(nodes) => nodes
                .iter()
                .filter_map(|node| self.text_in_array(key, node))
                .collect(),
            other => {
                self.invalid(
                    key,
                    format!("must be an array of strings, is {}", other.kind()),
                );
                Vec::new()
            }
        }
    }

    fn text_in_array(&self, key: &str, node: &Node) -> Option<String> {
        if let Value::Text(text) = &node.value {
            return Some(text.clone());
        }
        let message = format!("must hold strings only, has {}", node.value.kind());
        self.context
            .problem(node.origin.clone(), &self.path_of(key), message);
        None
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self.text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.refuse(key, format!("`{text}` is not one of {}", known.join(", ")))
    }

    /// The name of a variable and the secret in it (or in the file that `<name>_FILE` names).
    pub(super) fn secret(
        &self,
        key: &'static str,
        default: Option<&str>,
    ) -> (Option<String>, Option<Secret>) {
        let name = self.text(key).or_else(|| default.map(str::to_owned));
        let secret = name
            .as_deref()
            .and_then(|name| match self.context.environment.secret(name) {
                Ok(secret) => secret,
                Err(message) => self.refuse(key, message),
            });
        (name, secret)
    }

    /// Keys that nobody asked for are errors that name the nearest known key.
    pub(super) fn finish(self) {
        for (key, node) in self.unknown() {
            let hint = nearest(key, &self.known.borrow());
            self.context.problem(
                node.origin.clone(),
                &self.path_of(key),
                format!("unknown key{hint}"),
            );
        }
    }

    /// Keys that nobody asked for, as they were written; only those that look like a slip are errors.
    pub(super) fn rest(self) -> serde_json::Map<String, serde_json::Value> {
        let mut rest = serde_json::Map::new();
        for (key, node) in self.unknown() {
            match close(key, &self.known.borrow(), 2) {
                Some(known) => {
                    let message = format!("unknown key; did you mean `{known}`?");
                    self.context
                        .problem(node.origin.clone(), &self.path_of(key), message);
                }
                None => {
                    rest.insert(key.clone(), node.value.to_json());
                }
            }
        }
        rest
    }

    /// A secret variable that no key names.
    pub(super) fn variable(&self, name: &str) -> Option<Secret> {
        match self.context.environment.secret(name) {
            Ok(secret) => secret,
            Err(message) => {
                self.context
                    .problem(Origin::Variable(name.into()), "", message);
                None
            }
        }
    }

    /// Every key, as it was written.
    pub(super) fn whole(&self) -> serde_json::Map<String, serde_json::Value> {
        let entry = |(key, node): (&String, &Node)| (key.clone(), node.value.to_json());
        self.entries.iter().map(entry).collect()
    }

    /// A problem at a path inside the table, in `camelCase` as the API writes it; the file's line is that of the key it is under.
    pub(super) fn invalid_inside(&self, path: &str, message: impl fmt::Display) {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        let snake: String = first
            .chars()
            .flat_map(|letter| {
                let boundary = letter.is_ascii_uppercase().then_some('_');
                boundary.into_iter().chain([letter.to_ascii_lowercase()])
            })
            .collect();
        let key = if self.has(first) { first } else { &snake };
        let (origin, path) = (self.origin_of(key), path.replacen(first, key, 1));
        self.context.problem(origin, &self.path_of(&path), message);
    }

    /// Where a key stands; the table itself when the key is not there.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.entries
            .get(key)
            .map_or_else(|| self.origin.clone(), |node| node.origin.clone())
    }

    pub(super) fn invalid(&self, key: &str, message: impl fmt::Display) {
        self.context
            .problem(self.origin_of(key), &self.path_of(key), message);
    }

    pub(super) fn warn(&self, key: &str, message: impl fmt::Display) {
        self.context
            .warning(self.origin_of(key), &self.path_of(key), message);
    }

    fn refuse<T>(&self, key: &str, message: impl fmt::Display) -> Option<T> {
        self.invalid(key, message);
        None
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(key);
        self.entries.get(key)
    }

    fn unknown(&self) -> Vec<(&'a String, &'a Node)> {
        let known = self.known.borrow();
        self.entries
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .collect()
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

fn is_variable(node: &Node) -> bool {
    matches!(node.origin, Origin::Variable(_))
}

fn nearest(key: &str, known: &[&'static str]) -> String {
    match close(key, known, key.chars().count().div_ceil(2).max(2)) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; known keys: {}", known.join(", ")),
    }
}

fn close(key: &str, known: &[&'static str], within: usize) -> Option<&'static str> {
    let (distance, name) = known
        .iter()
        .map(|name| (distance(key, name), *name))
        .min()?;
    (distance <= within).then_some(name)
}

/// Edit distance, for suggestions.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}
