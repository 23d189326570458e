//! The port of rate windows that processes share.

use async_trait::async_trait;

/// Counts requests for all processes together.
///
/// Contract: a window counts in slots of one second, the current one and 60 before it; a refused request is not
/// counted. An implementation answers soon or returns `None`; the caller then counts locally.
#[async_trait]
pub trait SharedWindows: Send + Sync {
    /// Counts a request in the window of this name unless it holds `limit` already. `None` when no shared count is
    /// available.
    async fn admit(&self, window: &str, limit: u32) -> Option<Counted>;
}

/// The state of a shared window after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Whether the request was counted.
    pub admitted: bool,
    /// How many are in the window.
    pub sum: u32,
    /// Seconds until the oldest of them leaves it.
    pub reset_seconds: u32,
}

/// The class of a request for rate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Starts a run: a new run or a session's message.
    RunStarts,
    /// Belongs to a live run: tool results, cancels, feedback.
    Lifecycle,
    /// Any other change.
    Writes,
    /// Reads and streams.
    Reads,
    /// Password attempts for one address, and secret attempts for one app.
    SignIns,
}

impl Bucket {
    /// The word in `X-RateLimit-Bucket`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunStarts => "run_starts",
            Self::Lifecycle => "lifecycle",
            Self::Writes => "writes",
            Self::Reads => "reads",
            Self::SignIns => "sign_ins",
        }
    }
}
