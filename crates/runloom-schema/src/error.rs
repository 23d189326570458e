//! Why a schema is refused.

use crate::limits;

/// Why a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", At(path))]
pub struct SchemaError {
    /// The kind, for callers that act on it.
    pub kind: SchemaErrorKind,
    /// JSON pointer into the schema; empty for the schema itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl SchemaError {
    /// True when the schema is not understood here, rather than too large: a provider may still accept it.
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
    /// A limit of [`crate::limits`] is exceeded.
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
    pub(crate) fn new(
        kind: SchemaErrorKind,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            path: shorten(&path.into()),
            message: message.into(),
        }
    }
}

/// The first [`limits::MESSAGE_CHARS`] characters of a text.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(limits::MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
