//! Crash suspects: runs that are driven apart after repeated crashes.
//!
//! When a process dies we cannot know which run caused it, so every run it was driving gets one failed attempt. After
//! [`TRUSTED`] attempts a run is a suspect until it makes progress, and further attempts must not be caused by another
//! suspect. A worker drives fewer suspects together with each attempt, and the last attempt is made without any other
//! suspect in the process. So a run that crashes its workers fails, and a bystander does not.
//!
//! Ordinary claims refuse suspects. The sweeper finds them, and they wait here for their share of [`CAPACITY`]. Waiting
//! is not an attempt.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::run_slots::RunSlot;
use super::{ClaimTerms, Worker};
use crate::driver::{CrashSuspicion, MAX_ATTEMPTS};
use runloom_ports::queue::Job;
use runloom_ports::store::RunNo;

/// Attempts of a run that is no suspect.
pub(super) const TRUSTED: u32 = 2;
/// Permits of a worker for crash suspects.
const CAPACITY: u32 = 16;
/// Time that a suspect with its permits waits for a run slot.
const SLOT_WAIT: Duration = Duration::from_secs(5);
/// Suspects that wait in one process. The sweeper finds the others again.
const MAX_WAITING: usize = 256;

/// The crash suspects of a worker.
#[derive(Debug)]
pub(super) struct CrashSuspects {
    permits: Arc<Semaphore>,
    waiting: Mutex<HashSet<RunNo>>,
}

impl Default for CrashSuspects {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(CAPACITY as usize)),
            waiting: Mutex::default(),
        }
    }
}

impl CrashSuspects {
    /// Adds a run to those that wait. False when it waits already, or too many do.
    fn enter(&self, run: RunNo) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.len() < MAX_WAITING && waiting.insert(run)
    }

    fn leave(&self, run: RunNo) {
        self.waiting.lock().remove(&run);
    }

    /// Waits for the permits of a run that is about to make this attempt, first come, first served.
    async fn acquire(&self, attempt: u32) -> Option<CrashSuspicion> {
        let permits = Arc::clone(&self.permits);
        permits.acquire_many_owned(share(attempt)).await.ok()
    }
}

/// The permits that a run needs for this attempt.
fn share(attempt: u32) -> u32 {
    match attempt.cmp(&MAX_ATTEMPTS) {
        Ordering::Less if attempt <= TRUSTED + 1 => 1,
        Ordering::Less => CAPACITY / 4,
        Ordering::Equal => CAPACITY,
        // The run is only ended.
        Ordering::Greater => 1,
    }
}

impl Worker {
    /// Claims and drives a suspect once it has the permits for this attempt and a run slot.
    pub(super) fn suspect(self: &Arc<Self>, job: Job, attempt: u32) {
        if !self.crash_suspects.enter(job.run) {
            return;
        }
        let worker = Arc::clone(self);
        self.parts.tasks.spawn("crash_suspect", async move {
            let shutdown = worker.parts.tasks.shutdown.clone();
            let ready = shutdown.until_draining(worker.isolate(job, attempt)).await;
            worker.crash_suspects.leave(job.run);
            let Some((suspicion, slot)) = ready.flatten() else {
                return;
            };
            let Some(notifier) = worker.notifiers.try_install(job.run) else {
                return;
            };
            let terms = ClaimTerms {
                max_attempts: attempt,
                suspicion: Some(suspicion),
            };
            worker.claim_and_drive(job, notifier, terms).await;
            drop(slot);
        });
    }

    /// Waits for the permits of a suspect, then for a run slot. A suspect that gets no slot in time returns its
    /// permits; the sweeper finds it again.
    async fn isolate(&self, job: Job, attempt: u32) -> Option<(CrashSuspicion, RunSlot)> {
        let suspicion = self.crash_suspects.acquire(attempt).await?;
        let mut free = self.slots.watch();
        let slot = async {
            loop {
                free.borrow_and_update();
                if let Some(slot) = self.slots.take(job.workspace) {
                    return Some(slot);
                }
                free.changed().await.ok()?;
            }
        };
        let slot = tokio::time::timeout(SLOT_WAIT, slot).await.ok()??;
        Some((suspicion, slot))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const RUN: RunNo = RunNo(7);

    /// The permits, if they are free now.
    fn now(crash_suspects: &CrashSuspects, attempt: u32) -> Option<CrashSuspicion> {
        crash_suspects.acquire(attempt).now_or_never().flatten()
    }

    #[tokio::test]
    async fn last_attempt_is_made_alone() {
        let crash_suspects = CrashSuspects::default();
        let other = now(&crash_suspects, TRUSTED + 1);
        assert!(now(&crash_suspects, MAX_ATTEMPTS).is_none());
        drop(other);
        let last = now(&crash_suspects, MAX_ATTEMPTS);
        assert!(last.is_some());
        for attempt in TRUSTED + 1..=MAX_ATTEMPTS {
            assert!(now(&crash_suspects, attempt).is_none(), "{attempt}");
        }
    }

    #[tokio::test]
    async fn fewer_suspects_share_a_process_with_each_attempt() {
        let together = |attempt| {
            let crash_suspects = CrashSuspects::default();
            std::iter::from_fn(|| now(&crash_suspects, attempt).map(std::mem::forget)).count()
        };
        let counts: Vec<usize> = (TRUSTED + 1..=MAX_ATTEMPTS).map(together).collect();
        assert_eq!(counts, [16, 4, 1]);
    }

    #[tokio::test]
    async fn suspects_are_first_come_first_served() {
        let crash_suspects = CrashSuspects::default();
        let first = now(&crash_suspects, TRUSTED + 1);
        let mut alone = Box::pin(crash_suspects.acquire(MAX_ATTEMPTS));
        assert!((&mut alone).now_or_never().is_none());
        assert!(now(&crash_suspects, TRUSTED + 1).is_none());
        drop(first);
        assert!(alone.await.is_some());
    }

    #[test]
    fn waiting_suspects_are_bounded() {
        let crash_suspects = CrashSuspects::default();
        assert!(crash_suspects.enter(RUN) && !crash_suspects.enter(RUN));
        crash_suspects.leave(RUN);
        let all = i64::try_from(MAX_WAITING).unwrap();
        assert!((0..all).all(|run| crash_suspects.enter(RunNo(run))));
        assert!(!crash_suspects.enter(RunNo(all)));
    }
}
