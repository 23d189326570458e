//! JSON Schemas from strangers, made safe.
//!
//! A schema is measured before it is built (bytes, values, depth, patterns, fan-out after `$ref`), refers to nothing
//! outside itself, and is kept compiled. A check first counts what it would cost and refuses to start what would not
//! end soon. `format` is an annotation here and never refuses a value.
//!
//! Reading order: [`limits`]; `graph` (which subschema applies where); `fan_out` (what one value costs at most);
//! `work` (what one instance costs); `build`; `cache`;
//! `declared` (what definitions of a workspace bring).

mod build;
mod cache;
mod fan_out;
mod graph;
pub mod limits;
mod measure;
mod work;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod ordinary_tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use cache::{SchemaCache, compile_off_thread};

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Validator {
    inner: Arc<Inner>,
}

struct Inner {
    compiled: jsonschema::Validator,
    graph: graph::Graph,
}

/// One way in which a value does not match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer into the value; empty for the value itself.
    pub path: String,
    /// What is wrong, without long values.
    pub message: String,
}

/// Why a schema is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", At(path))]
pub struct SchemaError {
    /// What to act on.
    pub kind: SchemaErrorKind,
    /// JSON pointer into the schema; empty for the schema itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl SchemaError {
    /// True when it is a matter of what the schema says, and not of how much it is: others may understand it.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        matches!(
            self.kind,
            SchemaErrorKind::Invalid | SchemaErrorKind::Reference
        )
    }
}

/// The kinds of [`SchemaError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaErrorKind {
    /// A cap of [`limits`] is exceeded.
    TooLarge,
    /// A reference leaves the schema, or points to nothing in it.
    Reference,
    /// Not a JSON Schema.
    Invalid,
    /// Not built in time; the same schema may pass later.
    Busy,
}

struct At<'a>(&'a str);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "at {}: ", self.0)
        }
    }
}

impl SchemaError {
    fn new(kind: SchemaErrorKind, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            path: cut(&path.into()),
            message: message.into(),
        }
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// Checks a value.
    ///
    /// # Errors
    /// The first few violations. A value whose check would cost too much is refused with one violation that says so.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let visits = work::visits(&self.inner.graph, value).map_err(|problem| {
            vec![Violation {
                path: String::new(),
                message: problem.to_owned(),
            }]
        })?;
        // The compiler and its regex engine are large; a defect in them must not take the run with it.
        catch_unwind(AssertUnwindSafe(|| self.compare(value, visits))).unwrap_or_else(|_| {
            Err(vec![Violation {
                path: String::new(),
                message: "the value could not be checked against the schema".to_owned(),
            }])
        })
    }

    fn compare(&self, value: &Value, visits: u64) -> Result<(), Vec<Violation>> {
        let compiled = &self.inner.compiled;
        if compiled.is_valid(value) {
            return Ok(());
        }
        if visits <= limits::VISITS_ALL_ERRORS {
            let errors = compiled.iter_errors(value).take(limits::VIOLATIONS);
            return Err(errors.map(|error| tell(&error)).collect());
        }
        if visits <= limits::VISITS_FIRST_ERROR
            && let Err(error) = compiled.validate(value)
        {
            return Err(vec![tell(&error)]);
        }
        Err(vec![Violation {
            path: String::new(),
            message: "the value does not match the schema; it is too large to say where".to_owned(),
        }])
    }
}

fn tell(error: &jsonschema::ValidationError<'_>) -> Violation {
    // Small values help to see the mistake; large ones (whole objects) only fill the context.
    let short = match &**error.instance() {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.len() <= 80,
        _ => true,
    };
    let message = if short {
        error.to_string()
    } else {
        error.masked().to_string()
    };
    Violation {
        path: cut(error.instance_path().as_str()),
        message: cut(&message),
    }
}

/// The text, or its beginning.
fn cut(text: &str) -> String {
    match text.char_indices().nth(limits::MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
