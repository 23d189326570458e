//! A look at a service from outside, for those who ask why nothing arrives. It changes nothing there.

use crate::{Error, rabbitmq, valkey};

/// What a service said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it is, for people.
    pub service: String,
    /// What would go wrong with it as it is; empty = nothing.
    pub problems: Vec<String>,
}

/// Why there was nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The address cannot be understood.
    #[error(transparent)]
    Address(#[from] Error),
    /// Nobody answers there, or not to us.
    #[error("{0}")]
    Away(String),
}

/// Looks whether `url` can be an address of RabbitMQ, without going there. [`crate::RabbitQueue::start`] refuses what this refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_amqp_url(url: &str) -> Result<(), Error> {
    rabbitmq::check_url(url)
}

/// Looks whether `url` can be an address of Valkey or Redis, without going there. [`crate::ValkeyBus::start`] refuses what this
/// refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_redis_url(url: &str) -> Result<(), Error> {
    valkey::check_url(url)
}

/// Connects to RabbitMQ as a process would, in bounded time.
///
/// # Errors
/// When it is not there, or does not let us in.
pub async fn look_at_amqp(url: &str) -> Result<Seen, LookError> {
    rabbitmq::look(url).await
}

/// Connects to Valkey or Redis as a process would, in bounded time.
///
/// # Errors
/// When it is not there, or does not let us in.
pub async fn look_at_redis(url: &str) -> Result<Seen, LookError> {
    valkey::look(url).await
}
