//! The place of a value in its document.

use std::fmt;

/// Characters of a foreign key or value that a path or message repeats.
const QUOTED_MAX_CHARS: usize = 80;

/// The place of a value in its document, written like `tools[2].parameters`; the root is empty.
///
/// A path borrows its parent, so that reading a valid document builds no strings.
#[derive(Clone, Copy)]
pub struct FieldPath<'p> {
    parent: Option<&'p FieldPath<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl FieldPath<'static> {
    /// The document itself.
    pub const ROOT: Self = Self {
        parent: None,
        step: Step::Root,
    };
}

impl<'p> FieldPath<'p> {
    /// The value under a key of the object at this path.
    #[must_use]
    pub fn key(&'p self, key: &'p str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// An element of the array at this path.
    #[must_use]
    pub fn index(&'p self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                let is_first = self
                    .parent
                    .is_none_or(|parent| matches!(parent.step, Step::Root));
                if !is_first {
                    f.write_str(".")?;
                }
                write!(f, "{}", Excerpt(key))
            }
        }
    }
}

/// A foreign text, cut after 80 characters so that an error stays small whatever was sent.
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED_MAX_CHARS) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
        }
    }
}
