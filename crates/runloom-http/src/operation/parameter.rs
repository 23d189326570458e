//! Parameters in the path, the query and the headers.

use serde_json::{Value, json};

/// A parameter in the path, in the query or in a header.
#[derive(Clone)]
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) about: &'static str,
    pub(crate) required: bool,
    pub(crate) schema: Value,
}

impl Parameter {
    fn query(name: &'static str, about: &'static str, schema: Value) -> Self {
        Self {
            name,
            place: "query",
            about,
            required: false,
            schema,
        }
    }

    /// A text in the query.
    pub(crate) fn text(name: &'static str, about: &'static str) -> Self {
        Self::query(name, about, json!({"type": "string"}))
    }

    /// A text in a header.
    pub(crate) fn header(name: &'static str, about: &'static str) -> Self {
        Self {
            place: "header",
            ..Self::text(name, about)
        }
    }

    /// A part of the path beside `{slug}` and `{id}`.
    pub(crate) fn path(name: &'static str, about: &'static str) -> Self {
        Self {
            place: "path",
            required: true,
            ..Self::text(name, about)
        }
    }

    /// An integer in the query, from the first bound to the second.
    pub(crate) fn integer(
        name: &'static str,
        (least, most): (u64, u64),
        about: &'static str,
    ) -> Self {
        let mut schema = json!({"type": "integer", "minimum": least});
        if most < i64::MAX as u64 {
            schema["maximum"] = json!(most);
        }
        Self::query(name, about, schema)
    }

    /// `true` or `false` in the query.
    pub(crate) fn switch(name: &'static str, about: &'static str) -> Self {
        let schema = json!({"type": "boolean", "default": false});
        Self::query(name, about, schema)
    }

    /// One of several words in the query.
    pub(crate) fn word(name: &'static str, words: &[&str], about: &'static str) -> Self {
        Self::query(name, about, json!({"type": "string", "enum": words}))
    }

    /// `metadata=key:value`, any number of times.
    pub(crate) fn metadata() -> Self {
        let about = "A label as `key:value`. May be repeated; all labels must match.";
        let pair = json!({"type": "string", "pattern": "^[^:]+:"});
        Self::query("metadata", about, json!({"type": "array", "items": pair}))
    }

    /// The value of an absent parameter.
    pub(crate) fn default(mut self, value: u64) -> Self {
        self.schema["default"] = json!(value);
        self
    }

    /// Bounds of the number of characters.
    pub(crate) fn chars(mut self, least: usize, most: usize) -> Self {
        self.schema["minLength"] = json!(least);
        self.schema["maxLength"] = json!(most);
        self
    }

    /// The request fails without it.
    pub(crate) fn required(mut self) -> Self {
        self.required = true;
        self
    }
}
