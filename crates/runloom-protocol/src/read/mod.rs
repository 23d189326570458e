//! A typed reader that collects errors: for JSON bodies of the API and for the TOML configuration.
//!
//! serde stops at the first error. This reader goes on, so that a document with three mistakes yields three [`Issue`]s,
//! each with the path of its value, what was expected, what was found and, for an unknown key, the nearest known one.
//!
//! # Parts
//!
//! - [`DocumentReader`] collects errors and warnings; [`DocumentReader::root`] begins, [`DocumentReader::finish`]
//!   ends a reading.
//! - [`Node`] is a value with its path. Its methods (`text`, `integer`, `boolean`, `keyword`, `fields`, `array`, …)
//!   return the typed value, or record an error and return `None`.
//! - [`Fields`] is an object. It has the same methods with a key in front (`fields.text("name", 64)`); an absent key is
//!   `None` without an error, `null` counts as absent, and [`Fields::require`] makes absence an error. `Fields`
//!   remembers which keys were asked for, so that [`Fields::refuse_unread`] can refuse all others.
//! - [`Array`] is an array; [`Fields::list`] reads all elements of one with a function.
//! - [`Keyword`] is an enum whose variants are words of the document.
//! - [`FieldPath`] is a place in the document, and [`Excerpt`] a foreign text short enough for a message.
//!
//! A read function returns something even after an error, because its value leaves the reader only when there were
//! none:
//!
//! ```
//! use runloom_protocol::read::{Fields, DocumentReader, ReaderOptions};
//! use serde_json::json;
//!
//! struct Server { listen: String, workers: u32 }
//!
//! fn server(fields: &Fields<'_, '_>) -> Server {
//!     let server = Server {
//!         listen: fields.text("listen", 255).unwrap_or("127.0.0.1:8787").to_owned(),
//!         workers: fields.integer("workers", 1..=64).unwrap_or(4),
//!     };
//!     fields.refuse_unread();
//!     server
//! }
//!
//! let document = json!({"server": {"listne": "[::]:80", "workers": 0}});
//! let reader = DocumentReader::new(ReaderOptions::toml());
//! let root = reader.root(&document).fields_or_empty();
//! let server = server(&root.section("server"));
//! root.refuse_unread();
//! let errors: Vec<String> = reader.finish(server).err().unwrap().iter().map(ToString::to_string).collect();
//! assert_eq!(errors, [
//!     "server.workers: expected an integer from 1 to 64, got 0",
//!     "server.listne: unknown key; did you mean `listen`?",
//! ]);
//! ```
//!
//! # TOML
//!
//! A TOML document is converted to a [`serde_json::Value`] first, and the caller keeps a map from path to line. A
//! path in the map is what [`FieldPath`] displays, such as `workspaces[0].slug`; a missing key has no entry, so its
//! line is that of the longest prefix which has one. What JSON cannot hold (dates, infinite floats, integers beyond
//! 64 bits) is converted to text, which no reader of numbers accepts. [`ReaderOptions::toml`] makes messages speak of
//! tables and keys. Values that come from environment variables are inserted as strings, with their paths in
//! [`ReaderOptions::untyped`]: numbers, booleans and comma-separated lists are parsed from such strings.

mod fields;
mod keyword;
mod node;
mod path;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::error::Issue;
use crate::limits;

pub use fields::Fields;
pub use keyword::Keyword;
pub(crate) use keyword::keywords;
pub(crate) use node::json_bytes;
pub use node::{Array, Node};
pub use path::{Excerpt, FieldPath};

/// The language that a document is written in, for the words of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Objects have fields.
    Json,
    /// Tables have keys.
    Toml,
}

/// The facts about a document that its values do not hold.
#[derive(Debug, Clone)]
pub struct ReaderOptions {
    /// The language that it is written in.
    pub syntax: Syntax,
    /// Errors that are listed; further ones are counted.
    pub max_errors: usize,
    /// Paths whose values are text because their origin has no types, such as environment variables.
    pub untyped: BTreeSet<String>,
}

impl ReaderOptions {
    /// A body of the API: at most [`limits::ISSUES_MAX`] errors are listed.
    #[must_use]
    pub fn json() -> Self {
        Self {
            syntax: Syntax::Json,
            max_errors: limits::ISSUES_MAX,
            untyped: BTreeSet::new(),
        }
    }

    /// A file of the operator's: every error is listed.
    #[must_use]
    pub fn toml() -> Self {
        Self {
            syntax: Syntax::Toml,
            max_errors: usize::MAX,
            untyped: BTreeSet::new(),
        }
    }
}

/// The errors and warnings of a reading, in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Violations; the document cannot be used.
    pub errors: Vec<Issue>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Issue>,
}

/// A reading of one document.
#[derive(Debug)]
pub struct DocumentReader {
    options: ReaderOptions,
    findings: RefCell<Findings>,
    unlisted: Cell<usize>,
}

impl DocumentReader {
    /// A reading without findings.
    #[must_use]
    pub fn new(options: ReaderOptions) -> Self {
        Self {
            options,
            findings: RefCell::default(),
            unlisted: Cell::new(0),
        }
    }

    /// The document itself.
    pub fn root<'v>(&self, document: &'v Value) -> Node<'v, '_> {
        Node::new(self, document, FieldPath::ROOT)
    }

    /// Records an error.
    pub fn refuse(&self, path: impl fmt::Display, message: impl fmt::Display) {
        let errors = &mut self.findings.borrow_mut().errors;
        if errors.len() >= self.options.max_errors {
            self.unlisted.set(self.unlisted.get() + 1);
        } else {
            errors.push(issue(path, message));
        }
    }

    /// Records a warning. Warnings beyond the limit of errors are dropped.
    pub fn warn(&self, path: impl fmt::Display, message: impl fmt::Display) {
        let warnings = &mut self.findings.borrow_mut().warnings;
        if warnings.len() < self.options.max_errors {
            warnings.push(issue(path, message));
        }
    }

    /// Everything that was found. When errors were not listed, the last one says how many.
    #[must_use]
    pub fn into_findings(self) -> Findings {
        let mut findings = self.findings.into_inner();
        let unlisted = self.unlisted.get();
        if unlisted > 0 {
            findings.errors.pop();
            let message = format!("{} further violations are not listed", unlisted + 1);
            findings.errors.push(issue("", message));
        }
        findings
    }

    /// The value that was read; warnings are dropped.
    ///
    /// # Errors
    /// Every violation.
    pub fn finish<T>(self, value: T) -> Result<T, Vec<Issue>> {
        let errors = self.into_findings().errors;
        if errors.is_empty() {
            Ok(value)
        } else {
            Err(errors)
        }
    }

    fn is_untyped(&self, path: &FieldPath<'_>) -> bool {
        !self.options.untyped.is_empty() && self.options.untyped.contains(&path.to_string())
    }
}

fn issue(path: impl fmt::Display, message: impl fmt::Display) -> Issue {
    Issue {
        path: path.to_string(),
        message: message.to_string(),
    }
}

impl Syntax {
    /// What an object is called, with its article.
    fn object(self) -> &'static str {
        match self {
            Self::Json => "an object",
            Self::Toml => "a table",
        }
    }

    /// What a member of an object is called.
    fn field(self) -> &'static str {
        match self {
            Self::Json => "field",
            Self::Toml => "key",
        }
    }

    /// What a value is, with its article.
    fn kind_of(self, value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) if self == Self::Toml && !number.is_f64() => "an integer",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => self.object(),
        }
    }
}
