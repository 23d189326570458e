//! Exponential backoff: how long to wait before something is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Delays that double from `first` to `longest`. Jitter keeps many processes from trying again at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the first retry, without jitter.
    pub first: Duration,
    /// The longest delay.
    pub longest: Duration,
    /// How much of a delay is random.
    pub jitter: Jitter,
}

/// How much of a delay is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// From half of the delay to all of it.
    Half,
    /// From nothing to all of the delay.
    Full,
}

impl Backoff {
    /// Delays with half jitter.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            jitter: Jitter::Half,
        }
    }

    /// The delay before a retry, counted from 1.
    #[must_use]
    pub fn delay(&self, retry: u32) -> Duration {
        let longest = self.without_jitter(retry);
        let random = longest.mul_f64(random_share());
        match self.jitter {
            Jitter::Half => longest / 2 + random / 2,
            Jitter::Full => random,
        }
    }

    /// The longest delay before a retry, counted from 1.
    #[must_use]
    pub fn without_jitter(&self, retry: u32) -> Duration {
        let factor = 2_u32.saturating_pow(retry.saturating_sub(1));
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The delays of consecutive retries.
    #[must_use]
    pub const fn delays(self) -> Delays {
        Delays {
            backoff: self,
            retries: 0,
        }
    }
}

/// The delays of consecutive retries.
#[derive(Debug, Clone)]
pub struct Delays {
    backoff: Backoff,
    retries: u32,
}

impl Delays {
    /// The delay before the next retry.
    pub fn next_delay(&mut self) -> Duration {
        self.retries = self.retries.saturating_add(1);
        self.backoff.delay(self.retries)
    }

    /// Begins again with the first delay, after a success.
    pub fn reset(&mut self) {
        self.retries = 0;
    }
}

/// A number from 0 to 1. The keys of the hasher are random, which is good enough to spread retries.
fn random_share() -> f64 {
    let random = RandomState::new().hash_one(0_u8) & u64::from(u32::MAX);
    random as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

    #[test]
    fn doubles_up_to_the_longest_delay() {
        let millis = [1, 2, 3, 8, 40, u32::MAX].map(|retry| BACKOFF.without_jitter(retry));
        assert_eq!(
            millis.map(|delay| delay.as_millis()),
            [100, 200, 400, 10_000, 10_000, 10_000]
        );
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        let full = Backoff {
            jitter: Jitter::Full,
            ..BACKOFF
        };
        for retry in 1..200 {
            let longest = BACKOFF.without_jitter(retry);
            let delay = BACKOFF.delay(retry);
            assert!(delay >= longest / 2 && delay <= longest, "{delay:?}");
            assert!(full.delay(retry) <= longest);
        }
    }

    #[test]
    fn begins_again_after_a_reset() {
        let mut delays = BACKOFF.delays();
        for _ in 0..20 {
            let _ = delays.next_delay();
        }
        assert!(delays.next_delay() >= BACKOFF.longest / 2);
        delays.reset();
        assert!(delays.next_delay() <= BACKOFF.first);
    }

    #[test]
    fn delays_differ() {
        let first = BACKOFF.delay(1);
        assert!((0..100).any(|_| BACKOFF.delay(1) != first));
    }
}
