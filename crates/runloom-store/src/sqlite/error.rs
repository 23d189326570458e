//! SQLite's errors in the port's words.

use runloom_ports::store::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;

use super::redo::Misfit;

/// Classifies what SQLite said.
pub(super) fn kind_of(error: &rusqlite::Error) -> StoreErrorKind {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::CannotOpen,
        ) => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Broken,
    }
}

/// An error of a read.
pub(super) fn reading(error: rusqlite::Error) -> StoreError {
    StoreError {
        kind: kind_of(&error),
        message: "reading from the SQLite database failed".to_owned(),
        source: Some(Box::new(error)),
    }
}

/// An error that is ours, not SQLite's.
pub(super) fn broken(message: impl Into<String>) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Broken,
        message: message.into(),
        source: None,
    }
}

/// Why a write failed, for each of those who waited for it.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) kind: StoreErrorKind,
    pub(super) text: String,
}

impl Reason {
    /// Something that may go away.
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self {
            kind: StoreErrorKind::Unavailable,
            text: text.into(),
        }
    }

    /// The same in the port's words.
    pub(super) fn error(&self) -> StoreError {
        StoreError {
            kind: self.kind,
            message: "writing to the SQLite database failed".to_owned(),
            source: Some(self.text.clone().into()),
        }
    }
}

impl From<rusqlite::Error> for Reason {
    fn from(error: rusqlite::Error) -> Self {
        Self {
            kind: kind_of(&error),
            text: error.to_string(),
        }
    }
}

impl From<std::io::Error> for Reason {
    fn from(error: std::io::Error) -> Self {
        Self::unavailable(format!("the redo file: {error}"))
    }
}

impl From<Misfit> for Reason {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Database(error) => error.into(),
            other => Self {
                kind: StoreErrorKind::Broken,
                text: other.to_string(),
            },
        }
    }
}
