//! What a health check of an external service reports.

use crate::error::Error;

/// The state of a reachable service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceHealth {
    /// Product, version and state, for display.
    pub service: String,
    /// Problems with the service as it is configured; empty when there are none.
    pub problems: Vec<String>,
}

/// Why a health check failed.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] Error),
    /// The service does not answer, or refuses the credentials.
    #[error("{0}")]
    Unreachable(String),
}
