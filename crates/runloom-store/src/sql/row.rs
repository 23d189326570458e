//! Rows, and how the port's types are read from their columns.

use std::sync::Arc;

use runloom_ports::store::{DocumentKind, KeyUsage, Millis, WorkspaceNo};
use runloom_protocol::id::{FeedbackId, GrantId, KeyId, RunId, SessionId, UserId};
use runloom_protocol::scope::ScopeSet;
use runloom_protocol::spec::Verdict;
use serde::de::DeserializeOwned;

use super::value::Value;

/// A stored value that this program cannot read.
#[derive(Debug, thiserror::Error)]
#[error("{column} holds a value that cannot be read: {problem}")]
pub(crate) struct Malformed {
    column: String,
    problem: String,
}

impl Malformed {
    pub(crate) fn new(column: &str, problem: impl ToString) -> Self {
        Self {
            column: column.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// A row of a result, with its columns by name.
#[derive(Debug)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    /// Pairs the names of a statement's columns with the values of one row.
    pub(crate) fn new(columns: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    fn value(&self, column: &str) -> Result<&Value, Malformed> {
        let place = self.columns.iter().position(|name| name == column);
        place
            .and_then(|place| self.values.get(place))
            .ok_or_else(|| Malformed::new(column, "there is no such column"))
    }

    /// A number.
    pub(crate) fn int(&self, column: &str) -> Result<i64, Malformed> {
        self.maybe_int(column)?
            .ok_or_else(|| Malformed::new(column, "it is empty"))
    }

    /// A number that may be missing.
    pub(crate) fn maybe_int(&self, column: &str) -> Result<Option<i64>, Malformed> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            _ => Err(Malformed::new(column, "it is not a number")),
        }
    }

    /// A count or a version.
    pub(crate) fn count(&self, column: &str) -> Result<u64, Malformed> {
        Ok(u64::try_from(self.int(column)?).unwrap_or(0))
    }

    /// A flag.
    pub(crate) fn bool(&self, column: &str) -> Result<bool, Malformed> {
        match self.value(column)? {
            Value::Bool(yes) => Ok(*yes),
            Value::Int(number) => Ok(*number != 0),
            _ => Err(Malformed::new(column, "it is not a flag")),
        }
    }

    /// A text.
    pub(crate) fn text(&self, column: &str) -> Result<String, Malformed> {
        self.str(column).map(str::to_owned)
    }

    /// A text that may be missing.
    pub(crate) fn maybe_text(&self, column: &str) -> Result<Option<String>, Malformed> {
        Ok(self.maybe_str(column)?.map(str::to_owned))
    }

    fn str(&self, column: &str) -> Result<&str, Malformed> {
        self.maybe_str(column)?
            .ok_or_else(|| Malformed::new(column, "it is empty"))
    }

    fn maybe_str(&self, column: &str) -> Result<Option<&str>, Malformed> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            _ => Err(Malformed::new(column, "it is not a text")),
        }
    }

    /// An id or a word of a fixed set.
    pub(crate) fn word<T: Word>(&self, column: &str) -> Result<T, Malformed> {
        parse(column, self.str(column)?)
    }

    /// An id or a word that may be missing.
    pub(crate) fn maybe_word<T: Word>(&self, column: &str) -> Result<Option<T>, Malformed> {
        let text = self.maybe_str(column)?;
        text.map(|text| parse(column, text)).transpose()
    }

    /// A value that is stored as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, Malformed> {
        serde_json::from_str(self.str(column)?).map_err(|error| Malformed::new(column, error))
    }

    /// A keyed hash.
    pub(crate) fn hash(&self, column: &str) -> Result<[u8; 32], Malformed> {
        self.maybe_hash(column)?
            .ok_or_else(|| Malformed::new(column, "it is empty"))
    }

    /// A keyed hash that may be missing. Bytes of another length become a hash that nothing has.
    pub(crate) fn maybe_hash(&self, column: &str) -> Result<Option<[u8; 32]>, Malformed> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes.as_slice().try_into().unwrap_or_default())),
            _ => Err(Malformed::new(column, "it is not a hash")),
        }
    }

    /// A time.
    pub(crate) fn time(&self, column: &str) -> Result<Millis, Malformed> {
        self.int(column).map(Millis)
    }

    /// A time that may be missing.
    pub(crate) fn maybe_time(&self, column: &str) -> Result<Option<Millis>, Malformed> {
        Ok(self.maybe_int(column)?.map(Millis))
    }

    /// The number of a workspace.
    pub(crate) fn workspace(&self, column: &str) -> Result<WorkspaceNo, Malformed> {
        self.int(column).map(WorkspaceNo)
    }
}

fn parse<T: Word>(column: &str, text: &str) -> Result<T, Malformed> {
    T::parse(text).ok_or_else(|| Malformed::new(column, format!("{text:?} is not known")))
}

/// A type that is stored as one word.
pub(crate) trait Word: Sized {
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! words {
    ($($kind:ident),*) => {$(
        impl Word for $kind {
            fn parse(text: &str) -> Option<Self> {
                $kind::parse(text)
            }
        }
    )*};
}

words!(
    DocumentKind,
    FeedbackId,
    GrantId,
    KeyId,
    KeyUsage,
    UserId,
    RunId,
    SessionId,
    Verdict
);

impl Word for ScopeSet {
    fn parse(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }
}
