//! The configuration file as one document, with the environment laid over it and the origin of every value.

use std::collections::{BTreeMap, BTreeSet};

use runloom_protocol::read::{Excerpt, FieldPath, ReaderOptions};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::problem::Problem;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// A line of the file, counted from 1.
    Line(usize),
    /// An environment variable.
    Variable(String),
}

/// A document that the typed reader reads, and the origin of each of its values by path.
#[derive(Debug)]
pub(super) struct SourceDocument<'a> {
    file: &'a str,
    pub(super) root: Value,
    origins: BTreeMap<String, Origin>,
    untyped: BTreeSet<String>,
}

impl<'a> SourceDocument<'a> {
    /// Parses TOML.
    ///
    /// # Errors
    /// Every syntax error, with its line.
    pub(super) fn parse(text: &str, file: &'a str) -> Result<Self, Vec<Problem>> {
        let lines = LineIndex::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let problem = |error: &toml::de::Error| {
                let line = error.span().map_or(1, |span| lines.line_at(span.start));
                Problem {
                    place: format!("{file}:{line}"),
                    path: String::new(),
                    message: error.message().trim().to_owned(),
                }
            };
            return Err(errors.iter().map(problem).collect());
        }
        let mut converter = Converter {
            lines,
            origins: BTreeMap::new(),
        };
        let root = converter.table(table.get_ref(), &FieldPath::ROOT);
        Ok(Self {
            file,
            root,
            origins: converter.origins,
            untyped: BTreeSet::new(),
        })
    }

    /// Lays `RUNLOOM_<SECTION>__<KEY>` over the file, and the variables of other programs under it. A number is an
    /// index: `RUNLOOM_WORKSPACES__0__SLUG`. Returns the variables that fit nowhere.
    pub(super) fn overlay(&mut self, environment: &Environment) -> Vec<Problem> {
        let mut problems = Vec::new();
        for shared in environment.shared_settings() {
            match environment.secret(shared.variable) {
                Ok(None) => {}
                Ok(Some(url)) => {
                    let steps = shared.path.map(str::to_owned);
                    let set = self.set(&steps, url.expose(), shared.variable);
                    problems.extend(set.err());
                }
                Err(message) => problems.push(Problem {
                    place: variable_place(shared.variable),
                    path: String::new(),
                    message,
                }),
            }
        }
        let mut settings: Vec<_> = environment.settings().collect();
        // Entries are set in the order of their indices: 2 before 10.
        settings.sort_by_cached_key(|setting| {
            let step = |step: &String| (step.parse::<usize>().ok(), step.clone());
            setting.path.iter().map(step).collect::<Vec<_>>()
        });
        for setting in settings {
            let set = self.set(&setting.path, setting.value, setting.variable);
            problems.extend(set.err());
        }
        problems
    }

    /// What the typed reader must know about the document.
    pub(super) fn reader_options(&self) -> ReaderOptions {
        ReaderOptions {
            untyped: self.untyped.clone(),
            ..ReaderOptions::toml()
        }
    }

    /// The file and line, or the variable, of the value at a path. A value that is not there stands where its table
    /// stands.
    pub(super) fn place(&self, path: &str) -> String {
        let mut known = path;
        loop {
            match self.origins.get(known) {
                Some(Origin::Line(line)) => return format!("{}:{line}", self.file),
                Some(Origin::Variable(name)) => return variable_place(name),
                None => {}
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = &known[..end],
                None => return self.file.to_owned(),
            }
        }
    }

    fn set(&mut self, steps: &[String], text: &str, variable: &str) -> Result<(), Problem> {
        let mut node = &mut self.root;
        let mut path = String::new();
        let refused = |message: String| Problem {
            place: variable_place(variable),
            path: steps.join("."),
            message,
        };
        for (depth, step) in steps.iter().enumerate() {
            let following = steps.get(depth + 1);
            let empty = || match following.map(|step| step.parse::<usize>()) {
                Some(Ok(_)) => Value::Array(Vec::new()),
                Some(Err(_)) | None => Value::Object(Map::new()),
            };
            let is_new;
            node = match node {
                Value::Object(fields) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&Excerpt(step).to_string());
                    is_new = !fields.contains_key(step);
                    fields.entry(step.clone()).or_insert_with(empty)
                }
                Value::Array(items) => {
                    let index: usize = step.parse().map_err(|_| {
                        refused(format!("`{step}` must be a number: the index in an array"))
                    })?;
                    path.push_str(&format!("[{index}]"));
                    is_new = index == items.len();
                    if is_new {
                        items.push(empty());
                    }
                    let count = items.len();
                    items.get_mut(index).ok_or_else(|| {
                        refused(format!(
                            "`{index}` leaves a gap: the array has {count} entries, numbered from 0"
                        ))
                    })?
                }
                other => return Err(refused(format!("cannot be set inside {}", kind(other)))),
            };
            if is_new || following.is_none() {
                let origin = Origin::Variable(variable.to_owned());
                self.origins.insert(path.clone(), origin);
            }
        }
        *node = match parse_array(text) {
            Some(array) => array,
            None => {
                self.untyped.insert(path);
                Value::String(text.to_owned())
            }
        };
        Ok(())
    }
}

fn variable_place(variable: &str) -> String {
    format!("environment variable {variable}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
    }
}

/// The TOML array in a variable's text; `None` when the text is anything else.
fn parse_array(text: &str) -> Option<Value> {
    let text = text.trim();
    if !(text.starts_with('[') && text.ends_with(']')) {
        return None;
    }
    let document = SourceDocument::parse(&format!("value = {text}"), "").ok()?;
    match document.root {
        Value::Object(mut fields) if fields.len() == 1 => fields.remove("value"),
        _ => None,
    }
}

/// Converts TOML to JSON and notes the line of every value. What JSON cannot hold becomes text.
struct Converter {
    lines: LineIndex,
    origins: BTreeMap<String, Origin>,
}

impl Converter {
    fn table(&mut self, table: &DeTable<'_>, path: &FieldPath<'_>) -> Value {
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let name: &str = AsRef::<str>::as_ref(key.get_ref());
            let path = path.key(name);
            // The line of the key: a table or a long value may begin further down.
            self.note(&path, key.span().start);
            (name.to_owned(), self.value(value.get_ref(), &path))
        };
        Value::Object(table.iter().map(entry).collect())
    }

    fn value(&mut self, value: &DeValue<'_>, path: &FieldPath<'_>) -> Value {
        match value {
            DeValue::String(text) => text.to_string().into(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string().into(), Value::from),
            DeValue::Float(number) => {
                let parsed = number.as_str().parse().ok().and_then(Number::from_f64);
                parsed.map_or_else(|| number.to_string().into(), Value::Number)
            }
            DeValue::Boolean(value) => (*value).into(),
            DeValue::Datetime(time) => time.to_string().into(),
            DeValue::Array(values) => {
                let element = |(index, value): (usize, &toml::Spanned<DeValue<'_>>)| {
                    let path = path.index(index);
                    self.note(&path, value.span().start);
                    self.value(value.get_ref(), &path)
                };
                Value::Array(values.iter().enumerate().map(element).collect())
            }
            DeValue::Table(table) => self.table(table, path),
        }
    }

    fn note(&mut self, path: &FieldPath<'_>, offset: usize) {
        let line = self.lines.line_at(offset);
        self.origins.insert(path.to_string(), Origin::Line(line));
    }
}

/// Byte offsets to lines.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn line_at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
