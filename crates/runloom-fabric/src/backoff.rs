//! How long to wait before the next attempt to reach a service.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A service that restarts is back soon.
const FIRST: Duration = Duration::from_millis(100);
/// A service that is gone is asked this often, so that an operator who repaired it need not wait.
const MOST: Duration = Duration::from_secs(10);

/// Pauses that double, each shortened at random so that many processes do not come back at the same moment.
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

    /// The attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }

    fn pause(&mut self) -> Duration {
        let full = self.0;
        self.0 = (full * 2).min(MOST);
        // The hasher's keys are random: good enough to spread some processes.
        let share = u32::try_from(RandomState::new().hash_one(full) % 512).unwrap_or_default();
        full / 2 + full * share / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_again_after_a_success() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            assert!(backoff.pause() <= MOST);
        }
        assert!(backoff.pause() >= MOST / 2);
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
