//! Typed reading of an object's fields: a wrong type is an issue that says what was found, `null` is absence.

use std::fmt;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::issues::{Issues, Path};
use crate::limits;
use crate::tools::Object;

/// An object of the body and its place.
#[derive(Clone, Copy)]
pub(super) struct Fields<'v, 'p> {
    object: &'v Object,
    pub(super) path: &'p Path<'p>,
}

impl<'v, 'p> Fields<'v, 'p> {
    pub(super) fn new(object: &'v Object, path: &'p Path<'p>) -> Self {
        Self { object, path }
    }

    /// The object at `path`, or an issue.
    pub(super) fn of(value: &'v Value, path: &'p Path<'p>, issues: &mut Issues) -> Option<Self> {
        let object = expect(value.as_object(), value, path, "an object", issues)?;
        Some(Self { object, path })
    }

    /// The field, unless it is absent or `null`.
    pub(super) fn get(&self, key: &str) -> Option<&'v Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// The field; its absence is an issue.
    pub(super) fn require(&self, key: &str, issues: &mut Issues) -> Option<&'v Value> {
        let value = self.get(key);
        if value.is_none() {
            self.refuse(key, "is required", issues);
        }
        value
    }

    pub(super) fn refuse(&self, key: &str, message: impl fmt::Display, issues: &mut Issues) {
        issues.add(&self.path.key(key), message);
    }

    /// The names of all fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &'v str> {
        self.object.keys().map(String::as_str)
    }

    /// Adds an issue for every field that is not among `known`.
    pub(super) fn only(&self, known: &[&str], issues: &mut Issues) {
        let unknown = self
            .object
            .keys()
            .filter(|key| !known.contains(&key.as_str()));
        for key in unknown {
            let names = known.join(", ");
            self.refuse(
                key,
                format_args!("unknown field; there are: {names}"),
                issues,
            );
        }
    }

    pub(super) fn str(&self, key: &str, issues: &mut Issues) -> Option<&'v str> {
        let value = self.get(key)?;
        string(value, &self.path.key(key), issues)
    }

    /// An optional text of at most `max` characters.
    pub(super) fn text(&self, key: &str, max: usize, issues: &mut Issues) -> Option<&'v str> {
        let text = self.str(key, issues)?;
        within_chars(text, max, &self.path.key(key), issues).then_some(text)
    }

    /// A text that must be there, with 1 to `max` characters.
    pub(super) fn required_text(
        &self,
        key: &str,
        max: usize,
        issues: &mut Issues,
    ) -> Option<&'v str> {
        self.require(key, issues)?;
        let text = self.text(key, max, issues)?;
        if text.is_empty() {
            self.refuse(key, "must not be empty", issues);
            return None;
        }
        Some(text)
    }

    /// A switch; absent = false.
    pub(super) fn flag(&self, key: &str, issues: &mut Issues) -> bool {
        let Some(value) = self.get(key) else {
            return false;
        };
        expect(
            value.as_bool(),
            value,
            &self.path.key(key),
            "true or false",
            issues,
        )
        .unwrap_or(false)
    }

    /// An optional integer inside `range`.
    pub(super) fn integer(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
        issues: &mut Issues,
    ) -> Option<u64> {
        let value = self.get(key)?;
        integer(value, range, &self.path.key(key), issues)
    }

    /// An optional integer inside `range`, for the many limits that are small.
    pub(super) fn small(
        &self,
        key: &str,
        range: RangeInclusive<u32>,
        issues: &mut Issues,
    ) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.integer(key, wide, issues)
            .and_then(|number| u32::try_from(number).ok())
    }

    pub(super) fn array(&self, key: &str, issues: &mut Issues) -> Option<&'v Vec<Value>> {
        let value = self.get(key)?;
        expect(
            value.as_array(),
            value,
            &self.path.key(key),
            "an array",
            issues,
        )
    }

    pub(super) fn object(&self, key: &str, issues: &mut Issues) -> Option<&'v Object> {
        let value = self.get(key)?;
        expect(
            value.as_object(),
            value,
            &self.path.key(key),
            "an object",
            issues,
        )
    }

    /// A document of a tool that is kept as it is, but not at any size.
    pub(super) fn document(&self, key: &str, issues: &mut Issues) -> Option<Value> {
        let value = self.get(key)?;
        let bytes = json_bytes(value);
        if bytes > limits::TOOL_DOCUMENT_MAX_BYTES {
            let max = limits::TOOL_DOCUMENT_MAX_BYTES;
            self.refuse(
                key,
                format_args!("must be at most {max} bytes of JSON, got {bytes}"),
                issues,
            );
            return None;
        }
        Some(value.clone())
    }

    /// As [`Self::document`], for documents that must be objects.
    pub(super) fn object_document(&self, key: &str, issues: &mut Issues) -> Option<Object> {
        self.object(key, issues)?;
        match self.document(key, issues)? {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Every field but those named, as the client wrote them, under the same cap as one document.
    pub(super) fn rest(&self, known: &[&str], issues: &mut Issues) -> Object {
        let rest: Object = self
            .object
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let bytes = json_bytes(&rest);
        if bytes > limits::TOOL_DOCUMENT_MAX_BYTES {
            let max = limits::TOOL_DOCUMENT_MAX_BYTES;
            issues.add(
                self.path,
                format_args!("the other fields must be at most {max} bytes of JSON, got {bytes}"),
            );
        }
        rest
    }
}

/// `found`, or an issue that names what is there instead.
pub(super) fn expect<T>(
    found: Option<T>,
    value: &Value,
    path: &Path<'_>,
    wanted: &str,
    issues: &mut Issues,
) -> Option<T> {
    if found.is_none() {
        issues.add(
            path,
            format_args!("expected {wanted}, got {}", kind_of(value)),
        );
    }
    found
}

pub(super) fn string<'v>(
    value: &'v Value,
    path: &Path<'_>,
    issues: &mut Issues,
) -> Option<&'v str> {
    expect(value.as_str(), value, path, "a string", issues)
}

/// An integer inside `range`. `3.0` is an integer too: JSON has one kind of number, and some clients write it so.
pub(super) fn integer(
    value: &Value,
    range: RangeInclusive<u64>,
    path: &Path<'_>,
    issues: &mut Issues,
) -> Option<u64> {
    let number = whole(value).filter(|number| range.contains(number));
    if number.is_none() {
        let (min, max) = (range.start(), range.end());
        let got: &dyn fmt::Display = if value.is_number() {
            value
        } else {
            &kind_of(value)
        };
        issues.add(
            path,
            format_args!("expected an integer from {min} to {max}, got {got}"),
        );
    }
    number
}

// The float is known to be a whole number between 0 and 2^53 before it is converted.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && (0.0..=limits::INTEGER_MAX as f64).contains(n))
            .map(|n| n as u64)
    })
}

/// True when `text` has at most `max` characters; otherwise there is an issue.
pub(super) fn within_chars(text: &str, max: usize, path: &Path<'_>, issues: &mut Issues) -> bool {
    // A text never has more characters than bytes, so nearly every text is accepted without counting.
    let fits = text.len() <= max || text.chars().count() <= max;
    if !fits {
        let got = text.chars().count();
        issues.add(
            path,
            format_args!("must be at most {max} characters, got {got}"),
        );
    }
    fits
}

/// True when `count` is at most `max`; otherwise there is an issue.
pub(super) fn within_count(count: usize, max: usize, path: &Path<'_>, issues: &mut Issues) -> bool {
    let fits = count <= max;
    if !fits {
        issues.add(
            path,
            format_args!("must have at most {max} entries, got {count}"),
        );
    }
    fits
}

/// Size of a value as compact JSON, counted without building it.
pub(super) fn json_bytes(value: &impl serde::Serialize) -> usize {
    let mut count = ByteCount(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

struct ByteCount(usize);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
