//! Read-only health checks of the external services, for `runloom doctor`.

use crate::{Error, rabbitmq, valkey};

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

/// Validates a RabbitMQ address without connecting. [`crate::RabbitQueue::start`] refuses what this refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_amqp_url(url: &str) -> Result<(), Error> {
    rabbitmq::check_url(url)
}

/// Validates an address of Valkey or Redis without connecting. [`crate::ValkeyBus::start`] refuses what this refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_redis_url(url: &str) -> Result<(), Error> {
    valkey::check_url(url)
}

/// Connects to RabbitMQ as a server process does, in bounded time.
///
/// # Errors
/// The address is invalid, the broker does not answer, or it refuses the credentials.
pub async fn check_amqp(url: &str) -> Result<ServiceHealth, HealthError> {
    rabbitmq::check(url).await
}

/// Connects to Valkey or Redis as a server process does, in bounded time.
///
/// # Errors
/// The address is invalid, the service does not answer, or it refuses the credentials.
pub async fn check_redis(url: &str) -> Result<ServiceHealth, HealthError> {
    valkey::check(url).await
}
