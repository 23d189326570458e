//! Exponential backoff between attempts to connect to a service.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// First pause: a service that restarts is back soon.
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause: after a repair, reconnecting takes no longer than this.
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that double up to [`LONGEST`], with jitter so that many processes do not reconnect at the same moment.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Waits before the next attempt.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.pause()).await;
    }

    /// Starts again at the first pause, after a successful attempt.
    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }

    fn pause(&mut self) -> Duration {
        let full = self.0;
        self.0 = (full * 2).min(LONGEST);
        // The hasher's keys are random, which is enough for jitter.
        let share = u32::try_from(RandomState::new().hash_one(full) % 512).unwrap_or_default();
        full / 2 + full * share / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_reset_after_success() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            assert!(backoff.pause() <= LONGEST);
        }
        assert!(backoff.pause() >= LONGEST / 2);
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
