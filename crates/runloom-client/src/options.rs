//! Every limit of the client, with its default.

use std::time::Duration;

use runloom_protocol::backoff::Backoff;

/// Limits of a client. All of them have working defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// For TCP and TLS. Default 10 s.
    pub connect_timeout: Duration,
    /// For one JSON answer in all, and for the head of a stream. Default 60 s.
    pub request_timeout: Duration,
    /// Silence inside a stream after which it is opened again; the server sends a heartbeat every 15 s. Default 60 s.
    pub idle_timeout: Duration,
    /// Bytes of one JSON answer. Default 64 MiB.
    pub max_json_bytes: usize,
    /// Bytes of one frame of a stream. Default 16 MiB: a frame carries its payload twice.
    pub max_frame_bytes: usize,
    /// Local tools that run at the same time. Default 8.
    pub concurrent_tools: usize,
    /// How requests are repeated.
    pub retry: RetryPolicy,
    /// How streams are opened again: more patiently, for a server that restarts keeps its runs.
    pub reconnect: RetryPolicy,
    /// Whether `HTTP_PROXY` and `HTTPS_PROXY` are followed. Default no: the server is usually near.
    pub system_proxy: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            max_json_bytes: 64 * 1024 * 1024,
            max_frame_bytes: 16 * 1024 * 1024,
            concurrent_tools: 8,
            retry: RetryPolicy::default(),
            reconnect: RetryPolicy {
                max_retries: 12,
                ..RetryPolicy::default()
            },
            system_proxy: false,
        }
    }
}

/// Exponential backoff with a cap.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Repetitions after the first failure; for a stream: openings in a row without a single event.
    pub max_retries: u32,
    /// Before the first repetition.
    pub first_delay: Duration,
    /// The longest wait, also when the server asks for more.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 6,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
        }
    }
}

impl RetryPolicy {
    /// Never again.
    #[must_use]
    pub fn none() -> Self {
        Self {
            max_retries: 0,
            ..Self::default()
        }
    }

    /// The delay before a retry, counted from 1: exponential with jitter, and at least what the server asked for, up to
    /// [`Self::max_delay`].
    #[must_use]
    pub fn delay(&self, retry: u32, retry_after: Option<Duration>) -> Duration {
        let delay = Backoff::new(self.first_delay, self.max_delay).delay(retry);
        delay
            .max(retry_after.unwrap_or_default())
            .min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let policy = RetryPolicy::default();
        for (retry, longest) in [(1, 500), (2, 1000), (3, 2000), (40, 8000)] {
            let millis = policy.delay(retry, None).as_millis();
            assert!((longest / 2..=longest).contains(&millis), "{millis}");
        }
    }

    #[test]
    fn delays_follow_retry_after() {
        let policy = RetryPolicy::default();
        let seconds = |wanted| policy.delay(1, Some(Duration::from_secs(wanted))).as_secs();
        assert_eq!(seconds(3), 3);
        assert_eq!(seconds(300), 8);
    }
}
