//! When deltas are written: the first after a pause at once, those that follow it closely together.
//!
//! A batch costs the store a row and a share of a sync, and each subscriber a write to its socket, however little it holds; a fast
//! provider would make one of every few tokens. Nobody sees the difference of a hundredth of a second. Where batches take long,
//! because the disk is slow or thousands of answers stream at once, they keep a longer distance, so that all share the machine
//! instead of falling behind. Only deltas wait: whatever else a draft holds is written at once, and so is the end.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Batches of nothing but deltas begin at least so far apart; the beginning of the run counts as one. One that takes n times as long
/// to be written is followed by the next after n times as long as it took: a disk that is a little slow is hardly noticed, and a
/// machine that is overloaded is left alone.
const SPACING: Duration = Duration::from_millis(10);

/// However long they take, nobody waits longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Where batches are as far apart as this, the provider is read no more often than that.
const READ_AT_EASE: Duration = Duration::from_millis(250);

/// A draft of so many bytes is written whatever the clock says.
pub(super) const ENOUGH_BYTES: usize = 32 * 1024;

/// The clock of one answer.
pub(super) struct Pace {
    /// How far apart batches begin now.
    spacing: Duration,
    /// How long the last batch took.
    took: Duration,
    /// How long batches take.
    usual: Duration,
    /// Made when something waits for the first time: the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    resting: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            spacing: SPACING,
            took: Duration::ZERO,
            usual: Duration::ZERO,
            timer: None,
            waiting: false,
            resting: false,
        }
    }
}

impl Pace {
    /// How far apart batches begin now.
    pub(super) fn spacing(&self) -> Duration {
        self.spacing
    }

    /// A batch took so long. Two in a row count: one alone is a hiccup of the disk.
    pub(super) fn took(&mut self, time: Duration) {
        let before = std::mem::replace(&mut self.took, time);
        self.usual = before.min(time).min(LONGEST);
        let times = self.usual.as_secs_f64() / SPACING.as_secs_f64();
        self.spacing = self.usual.mul_f64(times).clamp(SPACING, LONGEST);
    }

    /// Whether what the provider sends is left alone for now. It is read again in time for the next batch. The end of an answer is
    /// then seen a little later, too.
    pub(super) fn rests(&self) -> bool {
        self.waiting && self.resting
    }

    /// Whether a draft may be written that must not begin before `earliest`. When it may not, [`Self::due`] tells when to ask again.
    pub(super) fn lets(&mut self, earliest: Option<Instant>) -> bool {
        self.waiting = earliest.is_some();
        if let Some(earliest) = earliest {
            // Reading takes about as long as writing.
            let until = earliest.checked_sub(self.usual).unwrap_or(earliest);
            self.resting = self.spacing >= READ_AT_EASE && Instant::now() < until;
            let next = if self.resting { until } else { earliest };
            match &mut self.timer {
                None => self.timer = Some(Box::pin(sleep_until(next))),
                Some(timer) if timer.deadline() != next => timer.as_mut().reset(next),
                Some(_) => {}
            }
        }
        !self.waiting
    }

    /// Resolves when it is time to ask again; never when nothing waits.
    pub(super) async fn due(&mut self) {
        match &mut self.timer {
            Some(timer) if self.waiting => timer.as_mut().await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod driven;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_comes_too_early_waits_for_its_time() {
        let mut pace = Pace::default();
        assert!(pace.lets(None));
        let began = Instant::now();
        for round in 1..=3 {
            let earliest = began + SPACING * round;
            assert!(!pace.lets(Some(earliest)));
            assert!(!pace.lets(Some(earliest)), "asking again changes nothing");
            pace.due().await;
            assert!(Instant::now() >= earliest);
        }
    }

    #[test]
    fn batches_that_take_long_keep_a_longer_distance_until_they_are_quick_again() {
        let mut pace = Pace::default();
        pace.took(Duration::from_secs(9));
        assert_eq!(pace.spacing(), SPACING, "once is a hiccup");
        pace.took(Duration::from_millis(8));
        assert_eq!(pace.spacing(), SPACING, "quick enough");
        (0..2).for_each(|_| pace.took(SPACING * 3));
        assert_eq!(pace.spacing(), SPACING * 3 * 3);
        (0..2).for_each(|_| pace.took(Duration::from_secs(9)));
        assert_eq!(pace.spacing(), LONGEST);
        pace.took(Duration::from_micros(300));
        assert_eq!(pace.spacing(), SPACING);
    }

    #[tokio::test]
    async fn a_provider_that_is_left_alone_is_read_again_before_the_next_batch() {
        let mut pace = Pace::default();
        let (now, far) = (Instant::now(), Duration::from_secs(600));
        assert!(!pace.lets(Some(now + far)));
        assert!(!pace.rests(), "quick: whatever comes is read at once");
        (0..2).for_each(|_| pace.took(LONGEST));
        assert!(!pace.lets(Some(now + far)));
        assert!(pace.rests());
        let asks_again = pace.timer.as_ref().map(|timer| timer.deadline());
        assert!(asks_again < Some(now + far), "before it is due");
        assert!(!pace.lets(Some(now + Duration::from_millis(1))));
        assert!(!pace.rests(), "it is due soon");
        assert!(pace.lets(None) && !pace.rests(), "nothing waits");
    }

    #[tokio::test]
    async fn nothing_is_due_when_nothing_waits() {
        let mut pace = Pace::default();
        assert!(pace.due().now_or_never().is_none());
        let long_ago = Instant::now();
        assert!(!pace.lets(Some(long_ago)));
        assert!(pace.lets(None), "written for another reason");
        assert!(pace.due().now_or_never().is_none());
    }
}
