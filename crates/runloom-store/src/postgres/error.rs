//! PostgreSQL's errors in the port's words.

use runloom_ports::store::{StoreError, StoreErrorKind};
use tokio_postgres::error::SqlState;

use crate::sql::Malformed;

/// Why a piece of work on the database did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The database, or the way to it, said no.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    /// No connection was to be had.
    #[error(transparent)]
    Pool(#[from] deadpool_postgres::PoolError),
    /// A value cannot be written down or read back.
    #[error("a stored value cannot be used")]
    Value(#[from] serde_json::Error),
    /// A stored value cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It took too long.
    #[error("no answer within {0} seconds")]
    Late(u64),
    /// A durability setting is off.
    #[error("{0}")]
    Unsafe(String),
    /// The connection went away during COMMIT and nobody could be asked what became of it.
    #[error("the connection was lost during COMMIT and its outcome is not known yet")]
    InDoubt,
}

impl Failure {
    /// True when the connection is gone or useless.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Database(error) => is_lost(error),
            Self::Pool(_) | Self::Late(_) | Self::Unsafe(_) => true,
            Self::Value(_) | Self::Malformed(_) | Self::InDoubt => false,
        }
    }

    /// True when the same work may succeed at once in a new transaction: it lost against another one.
    pub(super) fn is_collision(&self) -> bool {
        let Self::Database(error) = self else {
            return false;
        };
        matches!(
            error.code(),
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
        )
    }

    /// True when a row with that key is there already.
    pub(super) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Database(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// What the caller can do about it.
    pub(super) fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Database(error) => kind_of(error),
            Self::Pool(_) | Self::Late(_) | Self::Unsafe(_) | Self::InDoubt => {
                StoreErrorKind::Unavailable
            }
            Self::Value(_) | Self::Malformed(_) => StoreErrorKind::Broken,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind(),
            message: "the PostgreSQL database did not do its work".to_owned(),
            source: Some(Box::new(failure)),
        }
    }
}

/// True for errors after which the connection cannot be used.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        // No answer of the server: the connection broke or could not be made.
        None => error.is_closed() || !is_of_a_value(error),
        Some(code) => {
            code.code().starts_with("08")
                || matches!(
                    code,
                    &SqlState::ADMIN_SHUTDOWN
                        | &SqlState::CRASH_SHUTDOWN
                        | &SqlState::CANNOT_CONNECT_NOW
                        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                        // After a failover: this server does not take writes any more.
                        | &SqlState::READ_ONLY_SQL_TRANSACTION
                )
        }
    }
}

/// True for errors of ours: a value that has not the type of its column.
fn is_of_a_value(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return false;
        }
        source = cause.source();
    }
    let said = error.to_string();
    said.contains("serializing parameter") || said.contains("deserializing column")
}

fn kind_of(error: &tokio_postgres::Error) -> StoreErrorKind {
    if is_lost(error) {
        return StoreErrorKind::Unavailable;
    }
    // Classes: rolled back, out of resources, limits in the way, cancelled (a timeout of ours), trouble of the system.
    let class = error.code().map(|code| &code.code()[..2]);
    match class {
        Some("40" | "53" | "55" | "57" | "58") => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Broken,
    }
}

/// An error that is ours, not the database's.
pub(super) fn broken(message: impl Into<String>) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Broken,
        message: message.into(),
        source: None,
    }
}
