//! What can be wrong before anything is tried.

/// Why a queue or a bus cannot be started. A service that is not reachable is not among it: that may change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be understood. The message does not repeat it: it may hold a password.
    #[error("not an address of {service}: {reason}; it has the form {form}")]
    Address {
        /// What should be there.
        service: &'static str,
        /// What is wrong.
        reason: String,
        /// What would be right.
        form: &'static str,
    },
}
