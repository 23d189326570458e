//! Every limit of the client, with its default.

use std::time::Duration;

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

    /// The wait before repetition `retry` (1-based); the server's wish wins below the cap.
    #[must_use]
    pub fn delay(&self, retry: u32, wish: Option<Duration>) -> Duration {
        let factor = 1_u32
            .checked_shl(retry.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let own = self.first_delay.saturating_mul(factor);
        wish.map_or(own, |wish| wish.max(own)).min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_follow_the_servers_wish() {
        let policy = RetryPolicy::default();
        let millis = |retry, wish| policy.delay(retry, wish).as_millis();
        assert_eq!(
            [millis(1, None), millis(2, None), millis(3, None)],
            [500, 1000, 2000]
        );
        assert_eq!(millis(40, None), 8000);
        assert_eq!(millis(1, Some(Duration::from_secs(3))), 3000);
        assert_eq!(millis(1, Some(Duration::from_secs(300))), 8000);
    }
}
