//! When deltas are written: the first after a pause at once, those that follow it closely together.
//!
//! A batch costs the store a row and a share of a sync, and each subscriber a write to its socket, however little it holds; a fast
//! provider would make one of every few tokens. Nobody sees the difference of a hundredth of a second. Where batches take long,
//! because the disk is slow or thousands of answers stream at once, they keep a longer distance, so that all share the machine
//! instead of falling behind. Only deltas wait: whatever else a draft holds is written at once, and so is the end.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Batches of nothing but deltas begin at least so far apart; the beginning of the run counts as one.
const SPACING: Duration = Duration::from_millis(10);

/// So many times as long as batches take they are apart: their share of the machine and of the disk is bounded by it.
const PATIENCE: u32 = 10;

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
    /// Made when something waits for the first time: the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            spacing: SPACING,
            timer: None,
            waiting: false,
        }
    }
}

impl Pace {
    /// How far apart batches begin now.
    pub(super) fn spacing(&self) -> Duration {
        self.spacing
    }

    /// A batch took so long.
    pub(super) fn took(&mut self, time: Duration) {
        let wanted = time.saturating_mul(PATIENCE).clamp(SPACING, LONGEST);
        // The mean with what was, so that one hiccup of the disk is soon forgotten.
        self.spacing = (self.spacing + wanted) / 2;
    }

    /// Whether what the provider sends is better left for a while, to be read in one go. The end of an answer is then seen a little
    /// later, too.
    pub(super) fn rests(&self) -> bool {
        self.waiting && self.spacing >= READ_AT_EASE
    }

    /// Whether a draft may be written that must not begin before `earliest`. When it may not, [`Self::due`] tells.
    pub(super) fn lets(&mut self, earliest: Option<Instant>) -> bool {
        self.waiting = earliest.is_some();
        if let Some(earliest) = earliest {
            match &mut self.timer {
                None => self.timer = Some(Box::pin(sleep_until(earliest))),
                Some(timer) if timer.deadline() != earliest => timer.as_mut().reset(earliest),
                Some(_) => {}
            }
        }
        !self.waiting
    }

    /// Resolves when what waits may be written; never when nothing waits.
    pub(super) async fn due(&mut self) {
        match &mut self.timer {
            Some(timer) if self.waiting => timer.as_mut().await,
            _ => std::future::pending().await,
        }
    }
}

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
        for _ in 0..3 {
            pace.took(Duration::from_micros(300));
            assert_eq!(pace.spacing(), SPACING);
        }
        (0..20).for_each(|_| pace.took(Duration::from_millis(8)));
        let apart = pace.spacing().as_millis();
        assert!((70..=80).contains(&apart), "{apart}");
        (0..20).for_each(|_| pace.took(Duration::from_secs(9)));
        assert!(pace.spacing() <= LONGEST);
        (0..20).for_each(|_| pace.took(Duration::from_micros(300)));
        assert!(pace.spacing() < SPACING * 2);
    }

    #[tokio::test]
    async fn the_provider_is_left_alone_only_while_something_waits_for_long() {
        let mut pace = Pace::default();
        pace.lets(Some(Instant::now()));
        assert!(!pace.rests(), "quick: whatever comes is read at once");
        (0..20).for_each(|_| pace.took(LONGEST));
        assert!(pace.rests());
        pace.lets(None);
        assert!(!pace.rests(), "nothing waits");
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
