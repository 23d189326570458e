//! SQLite's errors as errors of the store port.

use runloom_ports::store::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;

/// Classifies an error of SQLite.
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

/// An error that did not come from SQLite.
pub(super) fn broken(message: impl Into<String>) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Broken,
        message: message.into(),
        source: None,
    }
}

/// Why a write failed, in a form that can be sent to several callers.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) kind: StoreErrorKind,
    pub(super) text: String,
}

impl WriteError {
    /// The port's error for one caller.
    pub(super) fn to_store(&self) -> StoreError {
        StoreError {
            kind: self.kind,
            message: "writing to the SQLite database failed".to_owned(),
            source: Some(self.text.clone().into()),
        }
    }
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self {
            kind: kind_of(&error),
            text: error.to_string(),
        }
    }
}
