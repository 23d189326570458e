//! An object of the document, read key by key.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{DocumentReader, Excerpt, FieldPath, Keyword, Node};
use crate::spelling;

type Object = Map<String, Value>;

/// Unknown keys of one object that are compared with the known ones; a document of nothing else holds no misspellings.
const COMPARED_MAX: usize = 64;

static EMPTY: LazyLock<Object> = LazyLock::new(Object::new);

/// An object of the document. It remembers which keys were asked for.
pub struct Fields<'v, 'p> {
    reader: &'p DocumentReader,
    object: &'v Object,
    path: FieldPath<'p>,
    known: RefCell<Vec<&'static str>>,
}

impl<'v, 'p> Fields<'v, 'p> {
    pub(super) fn new(reader: &'p DocumentReader, object: &'v Object, path: FieldPath<'p>) -> Self {
        Self {
            reader,
            object,
            path,
            known: RefCell::default(),
        }
    }

    pub(super) fn empty(reader: &'p DocumentReader, path: FieldPath<'p>) -> Self {
        Self::new(reader, &EMPTY, path)
    }

    /// The place of the object.
    #[must_use]
    pub fn path(&self) -> &FieldPath<'p> {
        &self.path
    }

    /// The object as it stands.
    #[must_use]
    pub fn object(&self) -> &'v Object {
        self.object
    }

    /// The value under a key, unless it is absent or `null`.
    #[must_use]
    pub fn get(&self, key: &'static str) -> Option<Node<'v, '_>> {
        self.accept(&[key]);
        let value = self.object.get(key).filter(|value| !value.is_null())?;
        Some(Node::new(self.reader, value, self.path.key(key)))
    }

    /// The value under a key; absence is an error.
    #[must_use]
    pub fn require(&self, key: &'static str) -> Option<Node<'v, '_>> {
        let node = self.get(key);
        if node.is_none() {
            self.refuse(key, "is required");
        }
        node
    }

    /// True when there is a value under the key. The key does not become known by asking.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    /// Every key with its value, for objects whose keys are data.
    pub fn entries<'a>(
        &'a self,
    ) -> impl Iterator<Item = (&'v str, Node<'v, 'a>)> + use<'a, 'v, 'p> {
        self.object.iter().map(|(key, value)| {
            let node = Node::new(self.reader, value, self.path.key(key));
            (key.as_str(), node)
        })
    }

    /// An optional string.
    #[must_use]
    pub fn string(&self, key: &'static str) -> Option<&'v str> {
        self.get(key)?.string()
    }

    /// An optional string of at most `max_chars` characters.
    #[must_use]
    pub fn text(&self, key: &'static str, max_chars: usize) -> Option<&'v str> {
        self.get(key)?.text(max_chars)
    }

    /// A string of 1 to `max_chars` characters that must be there.
    #[must_use]
    pub fn required_text(&self, key: &'static str, max_chars: usize) -> Option<&'v str> {
        self.require(key)?.filled_text(max_chars)
    }

    /// `true` or `false`, if given.
    #[must_use]
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        self.get(key)?.boolean()
    }

    /// True when the key is given as `true`.
    #[must_use]
    pub fn flag(&self, key: &'static str) -> bool {
        self.boolean(key).unwrap_or(false)
    }

    /// An optional integer in `range`.
    #[must_use]
    pub fn integer<T>(&self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<u64> + PartialOrd + fmt::Display,
    {
        self.get(key)?.integer(range)
    }

    /// One of the words of an enum, if given.
    #[must_use]
    pub fn keyword<K: Keyword>(&self, key: &'static str) -> Option<K> {
        self.get(key)?.keyword()
    }

    /// The object under a key, if given.
    #[must_use]
    pub fn fields(&self, key: &'static str) -> Option<Fields<'v, '_>> {
        self.get(key)?.fields()
    }

    /// The object under a key; an empty one when it is absent or not an object.
    #[must_use]
    pub fn section(&self, key: &'static str) -> Fields<'v, '_> {
        self.fields(key)
            .unwrap_or_else(|| Fields::empty(self.reader, self.path.key(key)))
    }

    /// The elements of an array that `read` could read; `None` when the array is absent, no array, or longer than
    /// `max_entries`.
    #[must_use]
    pub fn list<T>(
        &self,
        key: &'static str,
        max_entries: usize,
        read: impl FnMut(Node<'v, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let array = self.get(key)?.array(max_entries)?;
        Some(array.iter().filter_map(read).collect())
    }

    /// Strings of at most `max_chars` characters, if given.
    #[must_use]
    pub fn strings(
        &self,
        key: &'static str,
        max_entries: usize,
        max_chars: usize,
    ) -> Option<Vec<String>> {
        self.get(key)?.strings(max_entries, max_chars)
    }

    /// Records an error about a key, whether it is there or not.
    pub fn refuse(&self, key: &str, message: impl fmt::Display) {
        self.reader.refuse(self.path.key(key), message);
    }

    /// Records an error about a place inside the object, such as `tools[0].name`.
    pub fn refuse_inside(&self, path: &str, message: impl fmt::Display) {
        let place = self.path.to_string();
        let separator = if place.is_empty() { "" } else { "." };
        self.reader
            .refuse(format_args!("{place}{separator}{path}"), message);
    }

    /// Records an error about the object as a whole.
    pub fn refuse_all(&self, message: impl fmt::Display) {
        self.reader.refuse(self.path, message);
    }

    /// Records a warning about a key, whether it is there or not.
    pub fn warn(&self, key: &str, message: impl fmt::Display) {
        self.reader.warn(self.path.key(key), message);
    }

    /// Makes keys known that are read elsewhere.
    pub fn accept(&self, keys: &[&'static str]) {
        let mut known = self.known.borrow_mut();
        for key in keys {
            if !known.contains(key) {
                known.push(key);
            }
        }
    }

    /// Keys that nobody asked for, with their values.
    pub fn unread(&self) -> impl Iterator<Item = (&'v str, &'v Value)> {
        let known = self.known.borrow().clone();
        self.object
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .filter(move |(key, _)| !known.contains(key))
    }

    /// Refuses every key that nobody asked for, with the nearest known key or all of them. Call it last.
    pub fn refuse_unread(&self) {
        let word = self.reader.options.syntax.field();
        for (index, (key, _)) in self.unread().enumerate() {
            let known = self.known.borrow();
            let near = (index < COMPARED_MAX)
                .then(|| spelling::suggestion(key, known.iter().copied()))
                .flatten();
            match near {
                Some(known) => self.refuse(key, DidYouMean { word, known }),
                None if index < COMPARED_MAX => {
                    let all = known.join(", ");
                    self.refuse(key, format_args!("unknown {word}; known {word}s: {all}"));
                }
                None => self.refuse(key, format_args!("unknown {word}")),
            }
        }
    }

    /// Refuses the keys that nobody asked for and that are misspellings of known ones. Call it last.
    pub fn refuse_misspelt(&self) {
        let word = self.reader.options.syntax.field();
        for (key, _) in self.unread().take(COMPARED_MAX) {
            if let Some(known) = self.misspelling_of(key) {
                self.refuse(key, DidYouMean { word, known });
            }
        }
    }

    /// The known key that an unread one is a misspelling of.
    #[must_use]
    pub fn misspelling_of(&self, key: &str) -> Option<&'static str> {
        spelling::misspelling_of(key, self.known.borrow().iter().copied())
    }
}

struct DidYouMean<'a> {
    word: &'a str,
    known: &'a str,
}

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, known } = self;
        write!(f, "unknown {word}; did you mean `{}`?", Excerpt(known))
    }
}
