//! When deltas are written: the first after a pause at once, those that follow it closely together.
//!
//! A batch costs the store a row and a share of a sync, however little it holds, and a fast provider would make one of every few
//! tokens. Nobody sees the difference of a hundredth of a second. Only deltas wait: whatever else a draft holds is written at
//! once, and so is the end.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Batches of nothing but deltas begin so far apart; the beginning of the run counts as one.
pub(super) const SPACING: Duration = Duration::from_millis(10);

/// A draft of so many bytes is written whatever the clock says.
pub(super) const ENOUGH_BYTES: usize = 32 * 1024;

/// The clock of one answer.
#[derive(Default)]
pub(super) struct Pace {
    /// Made when something waits for the first time: the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Pace {
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
