//! What can go wrong, classified so that callers need not read text.

use std::time::Duration;

use runloom_protocol::error::{ErrorBody, ErrorCode};

/// The result of every call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request.
    #[error("{}", refusal(*status, body))]
    Api {
        /// HTTP status.
        status: u16,
        /// What the server said; made up from the status when it said nothing readable.
        body: Box<ErrorBody>,
        /// How long the server asked us to wait.
        retry_after: Option<Duration>,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("cannot reach the server: {0}")]
    Network(
        String,
        #[source] Option<Box<dyn std::error::Error + Send + Sync>>,
    ),
    /// The server did not answer in time.
    #[error("the server did not answer within {}", seconds(*.0))]
    Timeout(Duration),
    /// The server answered something that is not the protocol.
    #[error("the server's answer is not understood: {0}")]
    Protocol(String),
    /// The client is not set up rightly: a malformed URL, a missing variable.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// The code of a refusal, when it is one this version knows.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api { body, .. } => body.error_code(),
            _ => None,
        }
    }

    /// The HTTP status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The server could not be reached or did not answer.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Network(..) | Self::Timeout(_))
    }

    /// The credential is missing, unknown or not allowed to do this.
    #[must_use]
    pub fn is_credential(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
    }

    /// No such thing in this workspace.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Too many requests; nothing was changed.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        self.status() == Some(429)
    }

    /// Trying the same again later may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.is_unreachable() || self.is_rate_limited() || self.status().is_some_and(|s| s >= 500)
    }

    /// The server's wish how long to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn from_transport(error: reqwest::Error, waited: Duration) -> Self {
        if error.is_timeout() && !error.is_connect() {
            return Self::Timeout(waited);
        }
        // The outer message of the HTTP library says "error sending request for url"; the innermost cause says why.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        // The address without its path: it has no secret, and shows a typing error.
        let place = error.url().map(|url| url.origin().ascii_serialization());
        let said = match place {
            Some(place) => format!("{place}: {cause}"),
            None => cause.to_string(),
        };
        Self::Network(said, Some(Box::new(error)))
    }

    pub(crate) fn from_answer(status: u16, retry_after: Option<Duration>, bytes: &[u8]) -> Self {
        let body = serde_json::from_slice(bytes).unwrap_or_else(|_| ErrorBody {
            error: format!("HTTP {status}"),
            message: excerpt(bytes),
            ..ErrorBody::default()
        });
        Self::Api {
            status,
            body: Box::new(body),
            retry_after,
        }
    }
}

/// The beginning of a body that is not ours, for the message.
fn excerpt(bytes: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    String::from_utf8_lossy(bytes)
        .trim()
        .chars()
        .take(MAX_CHARS)
        .collect()
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}

fn refusal(status: u16, body: &ErrorBody) -> String {
    let mut text = match (body.message.is_empty(), body.error.is_empty()) {
        (false, _) => body.message.clone(),
        (true, false) => body.error.clone(),
        (true, true) => "no reason given".to_owned(),
    };
    for issue in body.issues.iter().skip(1) {
        text.push_str(&format!("\n  {}: {}", issue.path, issue.message));
    }
    if !body.candidates.is_empty() {
        text.push_str(&format!("\n  near: {}", body.candidates.join(", ")));
    }
    if let Some(hint) = &body.hint {
        text.push_str(&format!("\n  hint: {hint}"));
    }
    let code = if body.code.is_empty() {
        "refused"
    } else {
        &body.code
    };
    format!("{code} (HTTP {status}): {text}")
}
