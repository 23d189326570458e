//! When deltas are written: the first after a pause at once, those that follow it closely together, those of a crowd in turn.
//!
//! A batch costs the store a row and a share of a sync, and each subscriber a write to its socket, however little it holds; a fast
//! provider would make one of every few tokens. Nobody sees the difference of a hundredth of a second. And where thousands of answers
//! stream at once, so many batches would be under way that everything else waits behind them: so they take turns, and an answer that
//! waits for its turn gathers more for it. Only deltas wait: whatever else a draft holds is written at once, and so is the end.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::PollSemaphore;

/// Batches of nothing but deltas begin at least so far apart; the beginning of the run counts as one.
pub(super) const SPACING: Duration = Duration::from_millis(10);

/// A draft of so many bytes is written whatever the clock says.
pub(super) const ENOUGH_BYTES: usize = 32 * 1024;

/// Batches of nothing but deltas that are under way at once, of all runs of a worker. Few enough that whoever is woken meanwhile waits
/// for no more than some hundred others, and enough for a disk that takes 10 ms for a sync: 25,600 a second. A slower one is the bound then.
const AT_ONCE: usize = 256;

/// The right to write deltas. Given to the batch, and given back with it.
pub(super) type Turn = OwnedSemaphorePermit;

/// The turns of a worker's answers, given to whoever has waited longest.
#[derive(Debug, Clone)]
pub(crate) struct WritePermits(Arc<Semaphore>);

impl Default for WritePermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// The clock of one answer.
pub(super) struct DeltaThrottle {
    turns: WritePermits,
    /// That of the next batch.
    turn: Option<Turn>,
    /// Nothing was said yet: the first words need no turn.
    is_first: bool,
    /// What is waited for.
    until: Until,
    /// Made when something waits for the first time: the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
    /// Our place among those who wait for a turn. Only there while we wait: a turn that comes must find somebody.
    queue: Option<PollSemaphore>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Nothing.
    Now,
    /// The time of the next batch, which is there.
    Batch,
    /// A turn.
    Turn,
}

impl DeltaThrottle {
    /// An answer begins.
    pub(super) fn new(turns: WritePermits) -> Self {
        Self {
            turns,
            turn: None,
            is_first: true,
            until: Until::Now,
            timer: None,
            queue: None,
        }
    }

    /// A batch begins, with deltas or without, and takes its turn along.
    pub(super) fn begins(&mut self, has_deltas: bool) -> Option<Turn> {
        self.is_first &= !has_deltas;
        self.until = Until::Now;
        self.queue = None;
        self.turn.take()
    }

    /// Whether what the provider sends is left alone for now: it is read when the turn comes.
    pub(super) fn rests(&self) -> bool {
        self.until == Until::Turn
    }

    /// Whether a draft may be written that must not begin before `earliest`. When it may not, [`Self::due`] tells when to ask again.
    pub(super) fn lets(&mut self, earliest: Option<Instant>) -> bool {
        if let Some(earliest) = earliest {
            self.wait(earliest);
            return false;
        }
        if self.turn.is_none() && !self.is_first {
            self.turn = Arc::clone(&self.turns.0).try_acquire_owned().ok();
            if self.turn.is_none() {
                self.until = Until::Turn;
                return false;
            }
        }
        true
    }

    /// Resolves when it is time to ask again; never when nothing waits.
    pub(super) async fn due(&mut self) {
        match (self.until, &mut self.timer) {
            (Until::Batch, Some(timer)) => timer.as_mut().await,
            (Until::Turn, _) => {
                let turns = &self.turns.0;
                let queue = self
                    .queue
                    .get_or_insert_with(|| PollSemaphore::new(Arc::clone(turns)));
                self.turn = poll_fn(|cx| queue.poll_acquire(cx)).await;
                self.queue = None;
            }
            _ => std::future::pending().await,
        }
        self.until = Until::Now;
    }

    fn wait(&mut self, next: Instant) {
        self.until = Until::Batch;
        match &mut self.timer {
            None => self.timer = Some(Box::pin(sleep_until(next))),
            Some(timer) if timer.deadline() != next => timer.as_mut().reset(next),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "delta_throttle_tests.rs"]
mod driven;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    impl WritePermits {
        /// So many at once.
        pub(super) fn of(at_once: usize) -> Self {
            Self(Arc::new(Semaphore::new(at_once)))
        }

        /// Takes all that are left.
        pub(super) fn take_all(&self) -> Turn {
            let left = u32::try_from(self.0.available_permits()).unwrap();
            let taken = Arc::clone(&self.0).try_acquire_many_owned(left);
            taken.expect("they are there")
        }
    }

    /// An answer that has shown something.
    fn begun(turns: &WritePermits) -> DeltaThrottle {
        let mut throttle = DeltaThrottle::new(turns.clone());
        assert!(throttle.lets(None) && throttle.begins(false).is_none());
        assert!(throttle.lets(None), "the first words need no turn");
        assert!(throttle.begins(true).is_none());
        throttle
    }

    #[tokio::test]
    async fn what_comes_too_early_waits_for_its_time() {
        let mut throttle = begun(&WritePermits::default());
        let began = Instant::now();
        for round in 1..=3 {
            let earliest = began + SPACING * round;
            assert!(!throttle.lets(Some(earliest)));
            assert!(
                !throttle.lets(Some(earliest)),
                "asking again changes nothing"
            );
            assert!(!throttle.rests(), "more is read until then");
            throttle.due().await;
            assert!(Instant::now() >= earliest);
        }
    }

    #[tokio::test]
    async fn answers_take_turns_in_the_order_in_which_they_asked() {
        let turns = WritePermits::of(1);
        let [mut first, mut second, mut third] = [(); 3].map(|()| begun(&turns));
        assert!(first.lets(None));
        let turn = first.begins(true);
        assert!(turn.is_some());
        for late in [&mut second, &mut third] {
            assert!(!late.lets(None));
            assert!(late.rests(), "the provider is left alone meanwhile");
            assert!(late.due().now_or_never().is_none());
        }
        drop(turn);
        assert!(third.due().now_or_never().is_none());
        assert!(second.due().now_or_never().is_some());
        assert!(second.lets(None) && !second.rests());
        assert!(!first.lets(None), "who had a turn asks again");
        drop(second);
        assert!(third.due().now_or_never().is_some());
        assert!(third.lets(None));
    }

    #[tokio::test]
    async fn who_writes_for_another_reason_leaves_the_queue() {
        let turns = WritePermits::of(1);
        let held = turns.take_all();
        let [mut hasty, mut patient] = [(); 2].map(|()| begun(&turns));
        for throttle in [&mut hasty, &mut patient] {
            assert!(!throttle.lets(None));
            assert!(throttle.due().now_or_never().is_none());
        }
        assert!(hasty.begins(true).is_none());
        assert!(!hasty.rests());
        drop(held);
        assert!(patient.due().now_or_never().is_some());
        assert!(hasty.due().now_or_never().is_none(), "nothing waits");
    }

    #[tokio::test]
    async fn a_turn_goes_with_its_batch_or_with_an_answer_that_breaks_off() {
        let turns = WritePermits::of(1);
        let mut throttle = begun(&turns);
        assert!(throttle.lets(None));
        assert_eq!(turns.0.available_permits(), 0);
        drop(throttle.begins(true));
        assert_eq!(turns.0.available_permits(), 1);
        assert!(throttle.lets(None));
        drop(throttle);
        assert_eq!(turns.0.available_permits(), 1);
    }

    #[tokio::test]
    async fn nothing_is_due_when_nothing_waits() {
        let mut throttle = begun(&WritePermits::default());
        assert!(throttle.due().now_or_never().is_none());
        assert!(!throttle.lets(Some(Instant::now())));
        assert!(throttle.lets(None), "written for another reason");
        drop(throttle.begins(true));
        assert!(throttle.due().now_or_never().is_none());
    }
}
