//! Where a value stands in the body, and the bounded list of what is wrong with it.

use std::fmt;

use crate::error::Issue;
use crate::limits;

/// Characters of a client's own key or value that a path or message repeats.
const QUOTED_MAX_CHARS: usize = 80;

/// A place in the body. It borrows its parent, so that a valid body builds no path strings at all.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl Path<'static> {
    /// The body itself.
    pub(super) const ROOT: Self = Self {
        parent: None,
        step: Step::Root,
    };
}

impl<'a> Path<'a> {
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                let first = self
                    .parent
                    .is_none_or(|parent| matches!(parent.step, Step::Root));
                if !first {
                    f.write_str(".")?;
                }
                write!(f, "{}", Short(key))
            }
        }
    }
}

/// A client's own text, cut so that a refusal stays small whatever was sent.
pub(super) struct Short<'a>(pub(super) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED_MAX_CHARS) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
        }
    }
}

/// Every violation found so far, up to the cap.
#[derive(Default)]
pub(super) struct Issues {
    listed: Vec<Issue>,
    unlisted: usize,
}

impl Issues {
    pub(super) fn add(&mut self, path: &Path<'_>, message: impl fmt::Display) {
        if self.listed.len() == limits::ISSUES_MAX {
            self.unlisted += 1;
        } else {
            self.listed.push(Issue {
                path: path.to_string(),
                message: message.to_string(),
            });
        }
    }

    /// The checked value, or what is wrong.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Vec<Issue>> {
        if self.unlisted > 0 {
            self.listed.pop();
            self.listed.push(Issue {
                path: String::new(),
                message: format!("{} further violations are not listed", self.unlisted + 1),
            });
        }
        if self.listed.is_empty() {
            Ok(value)
        } else {
            Err(self.listed)
        }
    }
}
