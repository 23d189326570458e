//! SQLite's errors in the port's words.

use runloom_core::ports::store::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;

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
