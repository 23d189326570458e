//! A value with its path, and an array of them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::keyword::{Alternatives, Keyword};
use super::{DocumentReader, Excerpt, FieldPath, Fields};
use crate::limits;

/// A value of the document, `'v`, with its path.
#[derive(Clone, Copy)]
pub struct Node<'v, 'p> {
    reader: &'p DocumentReader,
    value: &'v Value,
    path: FieldPath<'p>,
}

impl<'v, 'p> Node<'v, 'p> {
    pub(super) fn new(reader: &'p DocumentReader, value: &'v Value, path: FieldPath<'p>) -> Self {
        Self {
            reader,
            value,
            path,
        }
    }

    /// The value as it stands.
    #[must_use]
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The place of the value.
    #[must_use]
    pub fn path(&self) -> &FieldPath<'p> {
        &self.path
    }

    /// Records an error.
    pub fn refuse(&self, message: impl fmt::Display) {
        self.reader.refuse(self.path, message);
    }

    /// Records a warning.
    pub fn warn(&self, message: impl fmt::Display) {
        self.reader.warn(self.path, message);
    }

    /// A string.
    #[must_use]
    pub fn string(&self) -> Option<&'v str> {
        self.expect("a string", self.value.as_str())
    }

    /// A string of at most `max_chars` characters.
    #[must_use]
    pub fn text(&self, max_chars: usize) -> Option<&'v str> {
        let text = self.string()?;
        self.has_chars_within(text, max_chars).then_some(text)
    }

    /// A string of 1 to `max_chars` characters.
    #[must_use]
    pub fn filled_text(&self, max_chars: usize) -> Option<&'v str> {
        let text = self.text(max_chars)?;
        if text.is_empty() {
            self.refuse("must not be empty");
            return None;
        }
        Some(text)
    }

    /// `true` or `false`.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        let found = match self.untyped_text() {
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            Some(_) => None,
            None => self.value.as_bool(),
        };
        self.expect("true or false", found)
    }

    /// An integer in `range`. `3.0` is accepted: JSON has one kind of number, and some clients write integers so.
    #[must_use]
    pub fn integer<T>(&self, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<u64> + PartialOrd + fmt::Display,
    {
        let number = match self.untyped_text() {
            Some(text) => text.parse().ok(),
            None => whole_number(self.value),
        };
        let number = number
            .and_then(|number: u64| T::try_from(number).ok())
            .filter(|number| range.contains(number));
        if number.is_none() {
            let (min, max) = (range.start(), range.end());
            let found = self.found();
            self.refuse(format_args!(
                "expected an integer from {min} to {max}, got {found}"
            ));
        }
        number
    }

    /// A finite number that `accepts` allows; `wanted` describes it, like `a number greater than 0`.
    #[must_use]
    pub fn number(&self, wanted: &str, accepts: impl FnOnce(f64) -> bool) -> Option<f64> {
        let number = match self.untyped_text() {
            Some(text) => text.parse().ok(),
            None => self.value.as_f64(),
        };
        let number = number.filter(|number: &f64| number.is_finite() && accepts(*number));
        if number.is_none() {
            self.refuse(format_args!("expected {wanted}, got {}", self.found()));
        }
        number
    }

    /// One of the words of an enum.
    #[must_use]
    pub fn keyword<K: Keyword>(&self) -> Option<K> {
        let word = self.string()?;
        let keyword = K::from_word(word);
        if keyword.is_none() {
            let wanted = Alternatives::<K>(PhantomData);
            self.refuse(format_args!("expected {wanted}, got `{}`", Excerpt(word)));
        }
        keyword
    }

    /// An object.
    #[must_use]
    pub fn fields(&self) -> Option<Fields<'v, 'p>> {
        let object = self.expect(self.reader.options.syntax.object(), self.value.as_object())?;
        Some(Fields::new(self.reader, object, self.path))
    }

    /// An object; an empty one after an error.
    #[must_use]
    pub fn fields_or_empty(&self) -> Fields<'v, 'p> {
        self.fields()
            .unwrap_or_else(|| Fields::empty(self.reader, self.path))
    }

    /// An array of at most `max_entries` entries.
    #[must_use]
    pub fn array(&self, max_entries: usize) -> Option<Array<'v, 'p>> {
        let items = self.expect("an array", self.value.as_array())?;
        let array = Array {
            reader: self.reader,
            items,
            path: self.path,
        };
        self.has_entries_within(items.len(), max_entries)
            .then_some(array)
    }

    /// An array of strings, each with at most `max_chars` characters. An untyped text is split at commas.
    #[must_use]
    pub fn strings(&self, max_entries: usize, max_chars: usize) -> Option<Vec<String>> {
        if let Some(text) = self.untyped_text() {
            let parts = text.split(',').map(str::trim);
            return Some(
                parts
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            );
        }
        let array = self.array(max_entries)?;
        let texts = array.iter().filter_map(|node| node.text(max_chars));
        Some(texts.map(str::to_owned).collect())
    }

    /// `found`, or an error that names what stands there instead.
    #[must_use]
    pub fn expect<T>(&self, wanted: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let kind = match self.untyped_text() {
                Some(_) => self.found(),
                None => Found::Kind(self.reader.options.syntax.kind_of(self.value)),
            };
            self.refuse(format_args!("expected {wanted}, got {kind}"));
        }
        found
    }

    /// True when `text` has at most `max` characters; records an error otherwise.
    pub fn has_chars_within(&self, text: &str, max: usize) -> bool {
        // A text never has more characters than bytes, so nearly every text is accepted without counting.
        let fits = text.len() <= max || text.chars().count() <= max;
        if !fits {
            let count = text.chars().count();
            self.refuse(format_args!(
                "must be at most {max} characters, got {count}"
            ));
        }
        fits
    }

    /// True when `count` is at most `max`; records an error otherwise.
    pub fn has_entries_within(&self, count: usize, max: usize) -> bool {
        let fits = count <= max;
        if !fits {
            self.refuse(format_args!("must have at most {max} entries, got {count}"));
        }
        fits
    }

    /// True when the value is at most `max` bytes of compact JSON; records an error otherwise.
    pub fn has_bytes_within(&self, max: usize) -> bool {
        let bytes = json_bytes(self.value);
        if bytes > max {
            self.refuse(format_args!(
                "must be at most {max} bytes of JSON, got {bytes}"
            ));
        }
        bytes <= max
    }

    /// The text, when the value has no type of its own.
    fn untyped_text(&self) -> Option<&'v str> {
        let text = self.value.as_str()?;
        self.reader.is_untyped(&self.path).then(|| text.trim())
    }

    fn found(&self) -> Found<'v> {
        match (self.value, self.untyped_text()) {
            (_, Some(text)) => Found::Text(text),
            (Value::Number(_), None) => Found::Number(self.value),
            _ => Found::Kind(self.reader.options.syntax.kind_of(self.value)),
        }
    }
}

/// What stands where something else was expected. Only numbers and untyped texts are repeated: a string may be a
/// secret.
enum Found<'v> {
    Number(&'v Value),
    Text(&'v str),
    Kind(&'static str),
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "`{}`", Excerpt(text)),
            Self::Kind(kind) => f.write_str(kind),
        }
    }
}

/// An array of the document.
#[derive(Clone, Copy)]
pub struct Array<'v, 'p> {
    reader: &'p DocumentReader,
    items: &'v [Value],
    path: FieldPath<'p>,
}

impl<'v> Array<'v, '_> {
    /// The elements.
    pub fn iter<'a>(&'a self) -> impl Iterator<Item = Node<'v, 'a>> + use<'a, 'v> {
        let element = |(index, value)| Node::new(self.reader, value, self.path.index(index));
        self.items.iter().enumerate().map(element)
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True without elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Records an error about the array as a whole.
    pub fn refuse(&self, message: impl fmt::Display) {
        self.reader.refuse(self.path, message);
    }

    /// Records an error about a key of one element.
    pub fn refuse_key(&self, index: usize, key: &str, message: impl fmt::Display) {
        self.reader.refuse(self.path.index(index).key(key), message);
    }
}

// The float is known to be a whole number between 0 and 2^53 before it is converted.
fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && (0.0..=limits::INTEGER_MAX as f64).contains(n))
            .map(|n| n as u64)
    })
}

/// Size of a value as compact JSON, counted without building it.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
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
