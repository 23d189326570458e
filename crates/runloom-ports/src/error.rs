//! Errors that ports return, without a word about transport.

use std::time::Duration;

use runloom_protocol::error::Issue;

use crate::store::{StoreError, StoreErrorKind};

/// Result of ports.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Default delay before a retry.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a port refused or failed. The message is for the caller; the source is for the operator only.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input violates the contract.
    #[error("{}", summary(.0))]
    Invalid(Vec<Issue>),
    /// A model name fits no model, or several.
    #[error("{message}")]
    InvalidModel {
        /// The unknown name.
        message: String,
        /// Catalog ids of similar models; may be empty.
        candidates: Vec<String>,
    },
    /// A plugin tool is not installed.
    #[error("{message}")]
    InvalidPlugin {
        /// The limit that was reached.
        message: String,
    },
    /// The resource does not exist in this workspace.
    #[error("No such {what}")]
    NotFound {
        /// The kind of resource, like `run`.
        what: &'static str,
    },
    /// The request contradicts the present state.
    #[error("{message}")]
    Conflict {
        /// The conflicting state.
        message: String,
    },
    /// A dependency cannot serve the request now.
    #[error("{message}")]
    Unavailable {
        /// The unavailable part, worded for clients.
        message: String,
        /// When to retry.
        retry_after: Duration,
    },
    /// A defect or a broken database. The source is for the operator only.
    #[error("The server failed inside")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// One violation at one path.
    #[must_use]
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Issue {
            path: path.into(),
            message: message.into(),
        }])
    }

    /// A failure whose cause is shown to the operator only.
    #[must_use]
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(source.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error.kind {
            StoreErrorKind::Unavailable => {
                // The cause is logged here because it does not reach the client.
                tracing::warn!(error = %Chain(&error), "store unavailable");
                Self::Unavailable {
                    message: "The store is busy or unreachable; try again shortly.".to_owned(),
                    retry_after: RETRY_AFTER,
                }
            }
            StoreErrorKind::Broken => Self::Internal(Box::new(error)),
        }
    }
}

/// Violations in one line: the first one and the number of others.
#[must_use]
pub fn summary(issues: &[Issue]) -> String {
    match issues {
        [] => "The request is not valid".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Shows an error with all its causes, for logs.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
