//! The delta throttle: when deltas are written.
//!
//! Every batch costs the store a row and a share of a sync, and each subscriber a write to its socket. Batches of
//! deltas of one answer therefore start at least [`SPACING`] apart, and at most [`MAX_IN_FLIGHT`] of a worker are in
//! flight; an answer that waits for a permit gathers more. Everything else in a draft, and the end, is written at
//! once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::PollSemaphore;

/// Shortest time between the starts of two batches of only deltas. The start of the run counts as a batch.
pub(super) const SPACING: Duration = Duration::from_millis(10);

/// A draft of this many bytes is written without waiting.
pub(super) const ENOUGH_BYTES: usize = 32 * 1024;

/// Batches of only deltas that a worker has in flight. Few enough that a task that is woken meanwhile waits for a few
/// hundred others at most, and enough for a disk that takes 10 ms for a sync: 25,600 a second.
const MAX_IN_FLIGHT: usize = 256;

/// The right to write a batch of deltas, held by the batch until it is published.
pub(super) type WritePermit = OwnedSemaphorePermit;

/// The write permits of a worker, first come, first served.
#[derive(Debug, Clone)]
pub(crate) struct WritePermits(Arc<Semaphore>);

impl Default for WritePermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_IN_FLIGHT)))
    }
}

/// The throttle of one answer.
pub(super) struct DeltaThrottle {
    permits: WritePermits,
    /// The permit of the next batch.
    permit: Option<WritePermit>,
    /// No delta was written yet: the first batch needs no permit.
    is_first: bool,
    waiting_for: WaitingFor,
    /// Created at the first wait, because the tokens of most providers are further apart.
    timer: Option<Pin<Box<Sleep>>>,
    /// The position in the queue for permits. Only present while waiting, so that no permit is given to nobody.
    queue: Option<PollSemaphore>,
}

/// What the throttle waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingFor {
    Nothing,
    /// The earliest time of the next batch.
    Time,
    Permit,
}

impl DeltaThrottle {
    /// The throttle of a new answer.
    pub(super) fn new(permits: WritePermits) -> Self {
        Self {
            permits,
            permit: None,
            is_first: true,
            waiting_for: WaitingFor::Nothing,
            timer: None,
            queue: None,
        }
    }

    /// Starts a batch without deltas and hands over its permit, if one was acquired.
    pub(super) fn begin(&mut self) -> Option<WritePermit> {
        self.waiting_for = WaitingFor::Nothing;
        self.queue = None;
        self.permit.take()
    }

    /// Starts a batch with deltas and hands over its permit; the first batch has none.
    pub(super) fn begin_deltas(&mut self) -> Option<WritePermit> {
        self.is_first = false;
        self.begin()
    }

    /// Whether a permit is awaited. The provider is not read meanwhile.
    pub(super) fn is_waiting_for_permit(&self) -> bool {
        self.waiting_for == WaitingFor::Permit
    }

    /// Whether a draft may be written now that must not start before `earliest`. If not, ask again after [`Self::due`].
    pub(super) fn allows(&mut self, earliest: Option<Instant>) -> bool {
        if let Some(earliest) = earliest {
            self.wait(earliest);
            return false;
        }
        if self.permit.is_none() && !self.is_first {
            self.permit = Arc::clone(&self.permits.0).try_acquire_owned().ok();
            if self.permit.is_none() {
                self.waiting_for = WaitingFor::Permit;
                return false;
            }
        }
        true
    }

    /// Waits until it is time to ask again; forever when nothing is awaited.
    pub(super) async fn due(&mut self) {
        match (self.waiting_for, &mut self.timer) {
            (WaitingFor::Time, Some(timer)) => timer.as_mut().await,
            (WaitingFor::Permit, _) => {
                let permits = &self.permits.0;
                let queue = self
                    .queue
                    .get_or_insert_with(|| PollSemaphore::new(Arc::clone(permits)));
                self.permit = poll_fn(|cx| queue.poll_acquire(cx)).await;
                self.queue = None;
            }
            _ => std::future::pending().await,
        }
        self.waiting_for = WaitingFor::Nothing;
    }

    fn wait(&mut self, next: Instant) {
        self.waiting_for = WaitingFor::Time;
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
        pub(super) fn of(count: usize) -> Self {
            Self(Arc::new(Semaphore::new(count)))
        }

        /// Takes all that are left.
        pub(super) fn take_all(&self) -> WritePermit {
            let left = u32::try_from(self.0.available_permits()).unwrap();
            let taken = Arc::clone(&self.0).try_acquire_many_owned(left);
            taken.expect("permits are available")
        }
    }

    /// An answer that has written its first deltas.
    fn begun(permits: &WritePermits) -> DeltaThrottle {
        let mut throttle = DeltaThrottle::new(permits.clone());
        assert!(throttle.allows(None) && throttle.begin().is_none());
        assert!(throttle.allows(None), "the first batch needs no permit");
        assert!(throttle.begin_deltas().is_none());
        throttle
    }

    #[tokio::test]
    async fn early_batches_wait() {
        let mut throttle = begun(&WritePermits::default());
        let began = Instant::now();
        for round in 1..=3 {
            let earliest = began + SPACING * round;
            assert!(!throttle.allows(Some(earliest)));
            assert!(
                !throttle.allows(Some(earliest)),
                "asking again changes nothing"
            );
            assert!(!throttle.is_waiting_for_permit(), "more is read until then");
            throttle.due().await;
            assert!(Instant::now() >= earliest);
        }
    }

    #[tokio::test]
    async fn permits_are_first_come_first_served() {
        let permits = WritePermits::of(1);
        let [mut first, mut second, mut third] = [(); 3].map(|()| begun(&permits));
        assert!(first.allows(None));
        let permit = first.begin_deltas();
        assert!(permit.is_some());
        for late in [&mut second, &mut third] {
            assert!(!late.allows(None));
            assert!(
                late.is_waiting_for_permit(),
                "the provider is not read meanwhile"
            );
            assert!(late.due().now_or_never().is_none());
        }
        drop(permit);
        assert!(third.due().now_or_never().is_none());
        assert!(second.due().now_or_never().is_some());
        assert!(second.allows(None) && !second.is_waiting_for_permit());
        assert!(!first.allows(None), "every batch needs a permit");
        drop(second);
        assert!(third.due().now_or_never().is_some());
        assert!(third.allows(None));
    }

    #[tokio::test]
    async fn urgent_batches_leave_the_queue() {
        let permits = WritePermits::of(1);
        let held = permits.take_all();
        let [mut hasty, mut patient] = [(); 2].map(|()| begun(&permits));
        for throttle in [&mut hasty, &mut patient] {
            assert!(!throttle.allows(None));
            assert!(throttle.due().now_or_never().is_none());
        }
        assert!(hasty.begin_deltas().is_none());
        assert!(!hasty.is_waiting_for_permit());
        drop(held);
        assert!(patient.due().now_or_never().is_some());
        assert!(hasty.due().now_or_never().is_none(), "nothing waits");
    }

    #[tokio::test]
    async fn permits_are_returned_with_batch_or_throttle() {
        let permits = WritePermits::of(1);
        let mut throttle = begun(&permits);
        assert!(throttle.allows(None));
        assert_eq!(permits.0.available_permits(), 0);
        drop(throttle.begin_deltas());
        assert_eq!(permits.0.available_permits(), 1);
        assert!(throttle.allows(None));
        drop(throttle);
        assert_eq!(permits.0.available_permits(), 1);
    }

    #[tokio::test]
    async fn due_waits_forever_when_nothing_is_awaited() {
        let mut throttle = begun(&WritePermits::default());
        assert!(throttle.due().now_or_never().is_none());
        assert!(!throttle.allows(Some(Instant::now())));
        assert!(throttle.allows(None), "written for another reason");
        drop(throttle.begin_deltas());
        assert!(throttle.due().now_or_never().is_none());
    }
}
