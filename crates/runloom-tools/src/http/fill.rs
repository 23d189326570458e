//! Arguments and secrets put into templates. What is filled in is never read as a template again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use runloom_protocol::definition::template::{self, Piece};
use serde_json::{Map, Value};

use crate::action::Secrets;

/// Why a request cannot be made, in words for a model.
pub(super) type Result<T, E = String> = std::result::Result<T, E>;

/// What templates are filled with.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) secrets: &'a Secrets,
}

/// A filled template.
pub(super) struct Filled {
    pub(super) text: String,
    /// All its arguments are absent, and it has some.
    pub(super) is_vacant: bool,
}

impl<'a> Filling<'a> {
    /// An argument or a field inside one; `null` counts as absent.
    pub(super) fn argument(&self, path: &str) -> Option<&'a Value> {
        let mut names = path.split('.');
        let first = self.arguments.get(names.next()?)?;
        let found = names.try_fold(first, |value, name| step(value, name))?;
        Some(found).filter(|value| !value.is_null())
    }

    /// A secret; its name was looked up before.
    pub(super) fn secret(&self, name: &str) -> Result<&'a str> {
        let missing = || format!("the workspace has no secret `{name}`, which this tool needs");
        self.secrets.get(name).ok_or_else(missing)
    }

    /// Fills a template; `write` brings each value into the alphabet of the place. Absent arguments are empty.
    pub(super) fn fill(
        &self,
        text: &str,
        mut write: impl FnMut(&str, &str) -> Result<String>,
    ) -> Result<Filled> {
        let (mut filled, mut arguments, mut present) = (String::new(), 0, 0);
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Secret(name) => filled.push_str(&write(name, self.secret(name)?)?),
                Piece::Argument(path) => {
                    arguments += 1;
                    if let Some(value) = self.argument(path) {
                        present += 1;
                        filled.push_str(&write(path, &as_text(value))?);
                    }
                }
            }
        }
        Ok(Filled {
            text: filled,
            is_vacant: arguments > 0 && present == 0,
        })
    }

    /// Headers: a line's end or another control character in an argument would begin a header of its own.
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

/// Takes a template apart; definitions are checked when they are stored.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>> {
    template::pieces(text).map_err(|error| format!("a template of the tool {error}"))
}

/// The argument's name, when the template is nothing but it.
pub(super) fn sole_argument(text: &str) -> Option<&str> {
    match template::pieces(text).ok()?.as_slice() {
        [Piece::Argument(path)] => Some(path),
        _ => None,
    }
}

/// One field further into a value.
pub(super) fn step<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

/// A value as text: strings as they are, everything else as JSON.
pub(super) fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
