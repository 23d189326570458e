//! Checking values against a compiled schema.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::shorten;
use crate::graph::Graph;
use crate::{limits, work};

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Validator {
    pub(crate) inner: Arc<CompiledSchema>,
}

/// The parts of a compiled schema.
pub(crate) struct CompiledSchema {
    compiled: jsonschema::Validator,
    graph: Graph,
}

/// One way in which a value does not match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer into the value; empty for the value itself.
    pub path: String,
    /// What is wrong, without long values.
    pub message: String,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// A compiled schema with the graph of its subschemas.
    pub(crate) fn new(compiled: jsonschema::Validator, graph: Graph) -> Self {
        Self {
            inner: Arc::new(CompiledSchema { compiled, graph }),
        }
    }

    /// Estimated memory of a schema with `schema` bytes of text: thirty times the text, and its regular expressions,
    /// which are large with counted repetitions or Unicode classes.
    pub(crate) fn estimated_bytes(&self, schema: usize) -> usize {
        let pattern = |pattern: &String| {
            if pattern.contains(['{', '\\']) {
                128 * 1024
            } else {
                4 * 1024
            }
        };
        schema * 30 + self.inner.graph.patterns.iter().map(pattern).sum::<usize>()
    }

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
        // A defect in the compiler or its regex engine must not end the run.
        catch_unwind(AssertUnwindSafe(|| self.compare(value, visits))).unwrap_or_else(|_| {
            Err(vec![Violation {
                path: String::new(),
                message: "the value could not be checked against the schema".to_owned(),
            }])
        })
    }

    /// Whether a value matches; `None` when the check would cost too much or broke.
    #[must_use]
    pub fn matches(&self, value: &Value) -> Option<bool> {
        work::visits(&self.inner.graph, value).ok()?;
        catch_unwind(AssertUnwindSafe(|| self.inner.compiled.is_valid(value))).ok()
    }

    fn compare(&self, value: &Value, visits: u64) -> Result<(), Vec<Violation>> {
        let compiled = &self.inner.compiled;
        if compiled.is_valid(value) {
            return Ok(());
        }
        if visits <= limits::VISITS_ALL_ERRORS {
            let errors = compiled.iter_errors(value).take(limits::VIOLATIONS);
            return Err(errors.map(|error| violation(&error)).collect());
        }
        if visits <= limits::VISITS_FIRST_ERROR
            && let Err(error) = compiled.validate(value)
        {
            return Err(vec![violation(&error)]);
        }
        Err(vec![Violation {
            path: String::new(),
            message: "the value does not match the schema; it is too large to say where".to_owned(),
        }])
    }
}

/// A violation, with the value only when it is short.
pub(crate) fn violation(error: &jsonschema::ValidationError<'_>) -> Violation {
    // Small values show the mistake; large ones only fill the context.
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
        path: shorten(error.instance_path().as_str()),
        message: shorten(&message),
    }
}
