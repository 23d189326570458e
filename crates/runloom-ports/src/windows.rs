//! The port of rate windows that processes share.

use async_trait::async_trait;

/// Counts requests for all processes together.
///
/// Contract: a window counts in slots of one second, the running one and 60 before it; a refused request is not
/// counted. An answer comes soon or not at all: whoever asks then counts by himself.
#[async_trait]
pub trait SharedWindows: Send + Sync {
    /// Counts a request in the window of this name unless `limit` are in it. `None` when nobody can say.
    async fn admit(&self, window: &str, limit: u32) -> Option<Counted>;
}

/// Where a shared window stands after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Whether the request was counted.
    pub admitted: bool,
    /// How many are in the window.
    pub sum: u32,
    /// Seconds until the oldest of them leaves it.
    pub reset_seconds: u32,
}

/// What a request counts as.
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
    /// Passwords that are tried for one address, and secrets for one app.
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
