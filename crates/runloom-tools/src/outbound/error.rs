//! Errors of outgoing requests.

use std::error::Error as StdError;
use std::time::Duration;

/// Result of outgoing requests.
pub type Result<T, E = OutboundError> = std::result::Result<T, E>;

/// Why an outgoing request failed. The message contains no header and no query, so that it may be shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The policy refuses the target. Nothing was sent.
    #[error("refused by the outbound policy: {what}")]
    Blocked {
        /// The refused target and the reason.
        what: String,
    },
    /// The peer did not answer in time.
    #[error("no {step} within {after:?}")]
    Timeout {
        /// The step that timed out.
        step: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The response exceeds a limit.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection failed, broke, or carried an unsupported response.
    #[error("{message}")]
    Network {
        /// The cause.
        message: String,
        /// Whether the peer may have received the request.
        sent: Sent,
    },
    /// A redirect was not followed.
    #[error("redirect not followed: {why}")]
    Redirects {
        /// The reason.
        why: String,
    },
}

/// Whether a failed request may have reached its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// No byte of the request was sent.
    No,
    /// The peer may have received the request.
    Maybe,
}

impl OutboundError {
    pub(crate) fn blocked(what: impl Into<String>) -> Self {
        Self::Blocked { what: what.into() }
    }

    /// True when no peer can have acted on the request, so that another address may be tried: none has received it, or
    /// those that did only sent a redirect.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Blocked { .. } | Self::Redirects { .. } => true,
            Self::Network { sent, .. } => *sent == Sent::No,
            Self::Timeout { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// Converts an error of the HTTP client. A refusal by the resolver is one of its sources.
    pub(super) fn from_client(error: &reqwest::Error) -> Self {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
        let mut last = String::new();
        while let Some(current) = cause {
            if let Some(found) = current.downcast_ref::<Self>() {
                return found.clone();
            }
            last = current.to_string();
            cause = current.source();
        }
        let what = if error.is_connect() {
            "cannot connect"
        } else if error.is_body() || error.is_decode() {
            "the response broke off"
        } else {
            "the request failed"
        };
        Self::Network {
            message: format!("{what}: {last}"),
            sent: match error.is_connect() {
                true => Sent::No,
                false => Sent::Maybe,
            },
        }
    }
}
