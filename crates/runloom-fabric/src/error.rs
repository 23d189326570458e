//! Errors of the configuration, before any connection is made.

/// Why a queue or a bus cannot be started. An unreachable service is not an error: it is retried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is invalid. The message does not repeat it, because it may hold a password.
    #[error("not an address of {service}: {reason}; it has the form {form}")]
    Address {
        /// The expected service.
        service: &'static str,
        /// What is wrong.
        reason: String,
        /// The expected form.
        form: &'static str,
    },
}
