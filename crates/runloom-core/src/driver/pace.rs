//! When deltas are written: the first after a pause at once, those that follow it closely together.
//!
//! A batch costs the store a row and a share of a sync, and each subscriber a write to its socket, however little it holds; a fast
//! provider would make one of every few tokens. Nobody sees the difference of a hundredth of a second. Where batches take long,
//! because the disk is slow or thousands of answers stream at once, they keep a longer distance, so that all share the machine
//! instead of falling behind. Only deltas wait: whatever else a draft holds is written at once, and so is the end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Batches of nothing but deltas begin at least so far apart; the beginning of the run counts as one. One that takes n times as long
/// to be written is followed by the next after n times as long as it took: a disk that is a little slow is hardly noticed, and a
/// machine that is overloaded is left alone.
const SPACING: Duration = Duration::from_millis(10);

/// However long they take, they are meant to be no further apart. Reading for one may add as long as the last one took.
const LONGEST: Duration = Duration::from_secs(1);

/// Where batches are as far apart as this, the provider is read no more often than that.
const READ_AT_EASE: Duration = Duration::from_millis(250);

/// A draft of so many bytes is written whatever the clock says.
pub(super) const ENOUGH_BYTES: usize = 32 * 1024;

/// How long batches took lately, of whichever answer: the next one need not find out by itself that a machine is busy.
#[derive(Debug, Default)]
pub(crate) struct Lately(AtomicU64);

impl Lately {
    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }
}

/// The clock of one answer.
pub(super) struct Pace {
    lately: Arc<Lately>,
    /// How far apart batches begin now.
    spacing: Duration,
    /// How long the last batch took.
    took: Duration,
    /// How long batches take.
    usual: Duration,
    /// What the timer is for.
    until: Until,
    /// Made when something waits for the first time: the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Nothing.
    Now,
    /// The time of the next batch, which is there.
    Batch,
    /// The time to read on: what the provider sends is left alone.
    Read,
    /// What came meanwhile is read, until nothing comes for a while or at most until then.
    Dry(Instant),
}

impl Pace {
    /// An answer begins. Its first batch is written as soon as if the machine were idle.
    pub(super) fn new(lately: Arc<Lately>) -> Self {
        Self {
            spacing: SPACING,
            took: lately.get(),
            lately,
            usual: Duration::ZERO,
            until: Until::Now,
            timer: None,
        }
    }

    /// How far apart batches begin now.
    pub(super) fn spacing(&self) -> Duration {
        self.spacing
    }

    /// A batch begins. Where they are far apart, what the provider sends is left alone until the next one: it is then read in one go,
    /// and the end of an answer is seen a little later, too.
    pub(super) fn begins(&mut self) {
        self.until = Until::Now;
        if self.is_at_ease() {
            self.rest(Instant::now() + self.spacing);
        }
    }

    /// A batch took so long. Two in a row count, the one before an answer's first being that of another: one alone is a hiccup of the disk.
    pub(super) fn took(&mut self, time: Duration) {
        self.lately.set(time);
        let before = std::mem::replace(&mut self.took, time);
        self.usual = before.min(time).min(LONGEST);
        let times = self.usual.as_secs_f64() / SPACING.as_secs_f64();
        self.spacing = self.usual.mul_f64(times).clamp(SPACING, LONGEST);
    }

    /// Whether what the provider sends is left alone for now.
    pub(super) fn rests(&self) -> bool {
        self.until == Until::Read && self.is_at_ease()
    }

    fn is_at_ease(&self) -> bool {
        self.spacing >= READ_AT_EASE
    }

    /// Whether a draft may be written that must not begin before `earliest`. When it may not, [`Self::due`] tells when to ask again.
    pub(super) fn lets(&mut self, earliest: Option<Instant>) -> bool {
        let now = Instant::now();
        match (self.until, earliest) {
            // It comes piece by piece, each after others had their turn.
            (Until::Dry(last), _) if now < last => {
                self.wait(Until::Dry(last), last.min(now + self.usual));
            }
            (_, Some(earliest)) if self.is_at_ease() => self.rest(earliest),
            (_, Some(earliest)) => self.wait(Until::Batch, earliest),
            (_, None) => self.until = Until::Now,
        }
        self.until == Until::Now
    }

    /// Resolves when it is time to read or to ask again; never when nothing waits.
    pub(super) async fn due(&mut self) {
        match &mut self.timer {
            Some(timer) if self.until != Until::Now => timer.as_mut().await,
            _ => std::future::pending().await,
        }
        match self.until {
            Until::Read => {
                let last = Instant::now() + 2 * self.usual;
                self.wait(Until::Dry(last), last);
            }
            _ => self.until = Until::Now,
        }
    }

    /// Leaves the provider alone until it is time to read for a batch. Reading takes about as long as writing.
    fn rest(&mut self, batch: Instant) {
        let read = batch.checked_sub(self.usual).unwrap_or(batch);
        self.wait(Until::Read, read);
    }

    fn wait(&mut self, until: Until, next: Instant) {
        self.until = until;
        match &mut self.timer {
            None => self.timer = Some(Box::pin(sleep_until(next))),
            Some(timer) if timer.deadline() != next => timer.as_mut().reset(next),
            Some(_) => {}
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
        let mut pace = Pace::new(Arc::default());
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
        let mut pace = Pace::new(Arc::default());
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

    #[test]
    fn an_answer_learns_from_the_others_but_shows_its_first_words_at_once() {
        let lately = Arc::<Lately>::default();
        Pace::new(Arc::clone(&lately)).took(SPACING * 3);
        let mut pace = Pace::new(Arc::clone(&lately));
        assert_eq!(pace.spacing(), SPACING, "the first words");
        pace.took(SPACING * 4);
        assert_eq!(pace.spacing(), SPACING * 3 * 3);
        let mut pace = Pace::new(lately);
        pace.took(Duration::from_micros(300));
        assert_eq!(pace.spacing(), SPACING, "its own are quick");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_is_left_alone_between_batches_that_are_far_apart() {
        let mut pace = Pace::new(Arc::default());
        pace.begins();
        assert!(!pace.rests(), "quick: whatever comes is read at once");
        (0..2).for_each(|_| pace.took(USUAL));
        let began = Instant::now();
        pace.begins();
        assert!(pace.rests());
        pace.due().await;
        let rested = pace.spacing() - USUAL;
        assert_eq!(
            Instant::now(),
            began + rested,
            "reading takes as long as writing"
        );
        assert!(!pace.rests(), "read again, with or without a draft");
        pace.begins();
        assert!(pace.rests());
        (0..2).for_each(|_| pace.took(SPACING));
        assert!(!pace.rests(), "quick again");
    }

    /// At ease, in the moment in which the provider is read again.
    async fn reading_on() -> Pace {
        let mut pace = Pace::new(Arc::default());
        (0..2).for_each(|_| pace.took(USUAL));
        pace.begins();
        pace.due().await;
        assert!(!pace.rests());
        pace
    }

    const USUAL: Duration = Duration::from_millis(60);

    #[tokio::test(start_paused = true)]
    async fn after_a_rest_all_that_has_come_is_read_before_it_is_written() {
        let mut pace = reading_on().await;
        let began = Instant::now();
        for _ in 0..3 {
            tokio::time::advance(USUAL / 4).await;
            assert!(!pace.lets(None), "there may be more");
        }
        pace.due().await;
        let came = began + USUAL / 4 * 3;
        assert_eq!(Instant::now(), came + USUAL, "no more came");
        assert!(pace.lets(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_never_pauses_is_not_read_for_ever() {
        let mut pace = reading_on().await;
        let last = Instant::now() + 2 * USUAL;
        while !pace.lets(None) {
            assert!(Instant::now() < last);
            tokio::time::advance(USUAL / 2).await;
        }
        assert!(Instant::now() < last + USUAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_says_nothing_after_a_rest_is_waited_for() {
        let mut pace = reading_on().await;
        pace.due().await;
        assert!(pace.due().now_or_never().is_none(), "nothing waits");
        assert!(pace.lets(None), "what comes now is written at once");
    }

    #[tokio::test]
    async fn a_draft_that_has_to_wait_leaves_the_provider_alone_as_well() {
        let mut pace = Pace::new(Arc::default());
        let far = Instant::now() + Duration::from_secs(600);
        assert!(!pace.lets(Some(far)));
        assert!(!pace.rests());
        (0..2).for_each(|_| pace.took(LONGEST));
        assert!(!pace.lets(Some(far)));
        assert!(pace.rests());
        assert!(pace.lets(None) && !pace.rests(), "nothing waits");
    }

    #[tokio::test]
    async fn nothing_is_due_when_nothing_waits() {
        let mut pace = Pace::new(Arc::default());
        assert!(pace.due().now_or_never().is_none());
        let long_ago = Instant::now();
        assert!(!pace.lets(Some(long_ago)));
        assert!(pace.lets(None), "written for another reason");
        assert!(pace.due().now_or_never().is_none());
    }
}
