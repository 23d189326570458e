//! Why an outgoing request did not happen, or was not read to its end.

use std::error::Error as StdError;
use std::time::Duration;

/// Result of outgoing requests.
pub type Result<T, E = OutboundError> = std::result::Result<T, E>;

/// Why an outgoing request failed. The text names no header and no query: it may be shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The policy refuses the target. Nothing was sent.
    #[error("refused by the outbound policy: {what}")]
    Blocked {
        /// What was refused, and why.
        what: String,
    },
    /// The peer took too long.
    #[error("no {step} within {after:?}")]
    Timeout {
        /// What was waited for.
        step: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// The peer sent more than we take.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection could not be made, broke, or carried something that is not HTTP as we speak it.
    #[error("{message}")]
    Network {
        /// What happened.
        message: String,
        /// No byte of the request can have reached the peer.
        unsent: bool,
    },
    /// A redirect that is not followed.
    #[error("redirect not followed: {why}")]
    Redirects {
        /// Why not.
        why: String,
    },
}

impl OutboundError {
    pub(crate) fn blocked(what: impl Into<String>) -> Self {
        Self::Blocked { what: what.into() }
    }

    /// True when no peer can have acted on the request, so that another address may be tried: none has seen it, or those that did have only
    /// pointed elsewhere.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Blocked { .. } | Self::Redirects { .. } | Self::Network { unsent: true, .. }
        )
    }

    /// Reads an error of the HTTP client. A refusal by the resolver travels inside it as a source.
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
            unsent: error.is_connect(),
        }
    }
}
