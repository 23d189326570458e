//! Errors of use cases, independent of transport. The message is for the caller; the source is for the operator only.

use std::time::Duration;

use runloom_protocol::error::Issue;
use runloom_protocol::resource::Approval;
use runloom_protocol::scope::{Scope, ScopeSet};

use crate::entry_point::EntryPoint;
use crate::rate_state::RateState;
use runloom_ports::error::{Error as PortError, summary};
use runloom_ports::store::StoreError;

pub use runloom_ports::error::Chain;

/// Result of use cases.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refused or failed use case. A refused request changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request carries no credential.
    #[error("API key or OAuth access token required")]
    MissingCredential,
    /// The credential is unknown, expired or revoked. The message does not say which.
    #[error("Invalid API key or OAuth access token")]
    InvalidCredential,
    /// The key is valid, but for another entry point.
    #[error("This API key is not for {}", .entry_point.label())]
    WrongKeyUsage {
        /// The entry point of the request.
        entry_point: EntryPoint,
    },
    /// The workspace's plan lacks the feature that the credential needs.
    #[error("The plan of this workspace has no {}", .feature.label())]
    PlanLacks {
        /// The missing feature.
        feature: PlanFeature,
    },
    /// The path names another workspace than the credential's.
    #[error("Workspace path does not match this credential")]
    SlugMismatch {
        /// The credential's own workspace.
        slug: String,
        /// Where it was shown.
        entry_point: EntryPoint,
    },
    /// The access token lacks a scope that the route needs.
    #[error("The access token lacks a scope: {} is needed", ScopeSet::from_iter(.required.iter().copied()))]
    InsufficientScope {
        /// All that is needed.
        required: Vec<Scope>,
    },
    /// The credential may not do this.
    #[error("{message}")]
    Forbidden {
        /// The refused action.
        message: String,
    },
    /// The workspace has no such resource.
    #[error("No such {what}")]
    NotFound {
        /// The kind of resource, like `run`.
        what: &'static str,
    },
    /// The request violates the contract.
    #[error("{}", summary(.0))]
    Invalid(Vec<Issue>),
    /// `modelId` names no model, or several.
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
    /// A published agent cannot be run because of its own configuration. Callers get no details.
    #[error("The agent is not available")]
    AgentUnavailable,
    /// The tool call is unknown, was answered, or timed out.
    #[error("No tool call with this id waits for an answer")]
    UnknownToolUse,
    /// No such approval of this run or of a run below it.
    #[error("No such approval of this run")]
    UnknownApproval,
    /// The approval is decided already, or has expired.
    #[error("The approval is {} already", .0.status.as_str())]
    ApprovalDecided(Box<Approval>),
    /// The run has ended.
    #[error("The run has ended")]
    RunTerminal,
    /// The session has ended.
    #[error("The session has ended; create another")]
    SessionEnded,
    /// The idempotency key was used with another request.
    #[error("This Idempotency-Key was used with another request")]
    IdempotencyKeyReused,
    /// OAuth's own refusals, with OAuth's own words.
    #[error("{message}")]
    OAuth {
        /// Which word.
        fault: OAuthFault,
        /// The error, for the developer of the app.
        message: String,
    },
    /// The request conflicts with the stored state.
    #[error("{message}")]
    Conflict {
        /// The conflicting state.
        message: String,
    },
    /// The resource was created, changed or deleted since the caller read it.
    #[error("{message}")]
    PreconditionFailed {
        /// The precondition that failed.
        message: String,
    },
    /// Too many requests in this minute.
    #[error(
        "Too many requests: {} per minute in bucket `{}`",
        .0.limit,
        .0.bucket
    )]
    RateLimited(RateState),
    /// The server, or a system behind it, cannot do this now.
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

    /// The same, saying which field of the request named the model when it was not `modelId`.
    #[must_use]
    pub fn at_field(mut self, field: &str) -> Self {
        if let Self::InvalidModel { message, .. } = &mut self {
            *message = format!("{field}: {message}");
        }
        self
    }

    /// A failure that only the operator can read.
    #[must_use]
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(source.into())
    }
}

/// Why an OAuth request is refused (RFC 6749).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthFault {
    /// A parameter is missing, doubled or malformed.
    InvalidRequest,
    /// The client is unknown, or its secret is wrong.
    InvalidClient,
    /// The code or the refresh token is not good, or not for this request.
    InvalidGrant,
    /// The app may not use this grant type.
    UnauthorizedClient,
    /// There is no such grant type.
    UnsupportedGrantType,
    /// There is no such response type.
    UnsupportedResponseType,
    /// A scope is unknown, or more than the app or the grant has.
    InvalidScope,
    /// The user declined.
    AccessDenied,
}

impl OAuthFault {
    /// The word under `error`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::AccessDenied => "access_denied",
        }
    }

    /// The refusal with a text.
    #[must_use]
    pub fn because(self, message: impl Into<String>) -> Error {
        Error::OAuth {
            fault: self,
            message: message.into(),
        }
    }
}

/// A feature that a workspace's plan may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanFeature {
    /// `apiKeys`.
    ApiKeys,
    /// `oauthApps`.
    OauthApps,
}

impl PlanFeature {
    /// Every feature that can be switched off.
    pub const ALL: [Self; 2] = [Self::ApiKeys, Self::OauthApps];

    /// The word in [`runloom_ports::store::WorkspaceRow::without`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKeys => "apiKeys",
            Self::OauthApps => "oauthApps",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::ApiKeys => "API keys",
            Self::OauthApps => "OAuth apps",
        }
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Invalid(issues) => Self::Invalid(issues),
            PortError::InvalidModel {
                message,
                candidates,
            } => Self::InvalidModel {
                message,
                candidates,
            },
            PortError::InvalidPlugin { message } => Self::InvalidPlugin { message },
            PortError::NotFound { what } => Self::NotFound { what },
            PortError::Conflict { message } => Self::Conflict { message },
            PortError::Unavailable {
                message,
                retry_after,
            } => Self::Unavailable {
                message,
                retry_after,
            },
            PortError::Internal(source) => Self::Internal(source),
        }
    }
}

impl From<Error> for PortError {
    /// Errors without a counterpart in the ports become internal ones.
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(issues) => Self::Invalid(issues),
            Error::InvalidModel {
                message,
                candidates,
            } => Self::InvalidModel {
                message,
                candidates,
            },
            Error::InvalidPlugin { message } => Self::InvalidPlugin { message },
            Error::NotFound { what } => Self::NotFound { what },
            Error::Conflict { message } => Self::Conflict { message },
            Error::Unavailable {
                message,
                retry_after,
            } => Self::Unavailable {
                message,
                retry_after,
            },
            Error::Internal(source) => Self::Internal(source),
            other => Self::Internal(Box::new(other)),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        PortError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use runloom_ports::store::StoreErrorKind;

    use super::*;

    fn store_error(kind: StoreErrorKind) -> StoreError {
        StoreError {
            kind,
            message: "cannot write page 7".to_owned(),
            source: Some("disk I/O error".into()),
        }
    }

    #[test]
    fn a_busy_store_can_be_tried_again_and_tells_nothing() {
        let error = Error::from(store_error(StoreErrorKind::Unavailable));
        assert!(matches!(&error, Error::Unavailable { retry_after, .. } if !retry_after.is_zero()));
        assert!(!error.to_string().contains("page 7"));
    }

    #[test]
    fn a_broken_store_shows_its_chain_only_to_the_operator() {
        let error = Error::from(store_error(StoreErrorKind::Broken));
        assert!(!error.to_string().contains("page 7"));
        assert_eq!(
            Chain(&error).to_string(),
            "The server failed inside: cannot write page 7: disk I/O error"
        );
    }

    #[test]
    fn several_violations_are_counted() {
        let issue = |path: &str| Issue {
            path: path.to_owned(),
            message: "is wrong".to_owned(),
        };
        let error = Error::Invalid(vec![issue("a"), issue("b"), issue("c")]);
        assert_eq!(error.to_string(), "a: is wrong (and 2 more)");
    }
}
