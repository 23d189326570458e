//! Fills arguments and secrets into templates. Filled-in values are never interpreted as templates.

use std::borrow::Cow;
use std::collections::BTreeMap;

use runloom_protocol::definition::template::{self, Piece};
use serde_json::{Map, Value};

use crate::call_secrets::CallSecrets;

/// The error is a message for the model.
pub(super) type Result<T, E = String> = std::result::Result<T, E>;

/// The values for a definition's templates.
#[derive(Clone, Copy)]
pub(super) struct TemplateValues<'a> {
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) secrets: &'a CallSecrets,
}

/// A filled template.
pub(super) struct FilledTemplate {
    pub(super) text: String,
    /// Whether the template has arguments and all of them are absent.
    pub(super) is_vacant: bool,
}

impl<'a> TemplateValues<'a> {
    /// An argument, or a field of one; `null` counts as absent.
    pub(super) fn argument(&self, path: &str) -> Option<&'a Value> {
        let mut names = path.split('.');
        let first = self.arguments.get(names.next()?)?;
        let found = names.try_fold(first, |value, name| field(value, name))?;
        Some(found).filter(|value| !value.is_null())
    }

    /// A secret of the call.
    pub(super) fn secret(&self, name: &str) -> Result<&'a str> {
        let missing = || format!("the workspace has no secret `{name}`, which this tool needs");
        self.secrets.get(name).ok_or_else(missing)
    }

    /// Fills a template. `encode` gets the name and the text of each value. Absent arguments are empty.
    pub(super) fn fill(
        &self,
        text: &str,
        mut encode: impl FnMut(&str, &str) -> Result<String>,
    ) -> Result<FilledTemplate> {
        let (mut filled, mut arguments, mut present) = (String::new(), 0, 0);
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Secret(name) => filled.push_str(&encode(name, self.secret(name)?)?),
                Piece::Argument(path) => {
                    arguments += 1;
                    if let Some(value) = self.argument(path) {
                        present += 1;
                        filled.push_str(&encode(path, &as_text(value))?);
                    }
                }
            }
        }
        Ok(FilledTemplate {
            text: filled,
            is_vacant: arguments > 0 && present == 0,
        })
    }

    /// Fills headers. Values with line breaks or other control characters are refused, because they could start another
    /// header.
    pub(super) fn headers(
        &self,
        templates: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>> {
        let mut headers = BTreeMap::new();
        for (header, text) in templates {
            let filled = self.fill(text, |name, value| {
                if value.chars().any(|c| !matches!(c, ' '..='~')) {
                    return Err(format!(
                        "`{name}` goes into the header {header}, which takes printable ASCII only"
                    ));
                }
                Ok(value.to_owned())
            })?;
            if !filled.is_vacant {
                headers.insert(header.clone(), filled.text);
            }
        }
        Ok(headers)
    }
}

/// Parses a template. Definitions are validated when they are stored.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>> {
    template::pieces(text).map_err(|error| format!("a template of the tool {error}"))
}

/// The name of the argument, when the template consists of one argument only.
pub(super) fn sole_argument(text: &str) -> Option<&str> {
    match template::pieces(text).ok()?.as_slice() {
        [Piece::Argument(path)] => Some(path),
        _ => None,
    }
}

/// A field of an object or an item of an array.
pub(super) fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A value as text: strings as they are, everything else as JSON.
pub(super) fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
