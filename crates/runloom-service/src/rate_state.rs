//! The state of a rate limit, as responses show it.

/// State of a window after a request; sent with every response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// Admissions per minute.
    pub limit: u32,
    /// How many more would be admitted now.
    pub remaining: u32,
    /// Seconds until the oldest admission leaves the window: when at least one more request is admitted.
    pub reset_seconds: u32,
    /// Which bucket.
    pub bucket: &'static str,
}
