//! Runs under suspicion: a process that dies leaves no word which of its runs killed it.
//!
//! Every run aboard a worker that dies is counted an attempt, because any of them may have done it. The first [`TRUSTED`] attempts
//! mean nothing: any run may have neighbours that kill. From then on a run is a suspect until it gets further, and whatever is
//! counted against it must not come from another suspect. So they are driven apart: a worker has room for a few that were
//! interrupted no more often than bystanders are, for fewer with each attempt, and the last attempt before a run is given up it makes
//! as the only suspect of its process. A run that kills its workers comes to that point and is given up; a bystander can be
//! driven there by it, and no further.
//!
//! CrashSuspects never overtake this order, because an ordinary claim does not take them: the sweeper finds them, and they wait
//! here until there is room. A claim that waits is not counted.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Worker, run_slots};
use crate::driver::{CrashSuspicion, MAX_ATTEMPTS};
use runloom_ports::queue::Job;
use runloom_ports::store::RunNo;

/// Attempts that any run may have without being a suspect.
pub(super) const TRUSTED: u32 = 2;
/// The room that a worker has for crash_suspects.
const ROOM: u32 = 16;
/// How long one that has its room waits for a place.
const PLACE_WAIT: Duration = Duration::from_secs(5);
/// CrashSuspects that wait in one process; the sweeper comes back to the others.
const WAITING: usize = 256;

/// The crash_suspects of a worker.
#[derive(Debug)]
pub(super) struct CrashSuspects {
    room: Arc<Semaphore>,
    waiting: Mutex<HashSet<RunNo>>,
}

impl Default for CrashSuspects {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM as usize)),
            waiting: Mutex::default(),
        }
    }
}

impl CrashSuspects {
    /// The run waits from now on. False when it does already, or too many do.
    fn enter(&self, run: RunNo) -> bool {
        let mut waiting = self.lock();
        waiting.len() < WAITING && waiting.insert(run)
    }

    fn leave(&self, run: RunNo) {
        self.lock().remove(&run);
    }

    /// Waits for the room of a run that is about to make this attempt. Those that need much of it are not overtaken.
    async fn room(&self, attempt: u32) -> Option<CrashSuspicion> {
        let room = Arc::clone(&self.room);
        room.acquire_many_owned(share(attempt)).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RunNo>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of the room a run takes in this attempt.
fn share(attempt: u32) -> u32 {
    match attempt.cmp(&MAX_ATTEMPTS) {
        Ordering::Less if attempt <= TRUSTED + 1 => 1,
        Ordering::Less => ROOM / 4,
        Ordering::Equal => ROOM,
        // It is not driven any more, only ended.
        Ordering::Greater => 1,
    }
}

impl Worker {
    /// Takes a suspect up as soon as there is room for one that makes this attempt.
    pub(super) fn suspect(self: &Arc<Self>, job: Job, attempt: u32) {
        if !self.crash_suspects.enter(job.run) {
            return;
        }
        let worker = Arc::clone(self);
        self.parts.tasks.spawn("suspect", async move {
            let stop = worker.parts.tasks.stop.clone();
            let ready = stop
                .run_until_cancelled(worker.apart(job, attempt))
                .await
                .flatten();
            worker.crash_suspects.leave(job.run);
            let Some((suspicion, place)) = ready else {
                return;
            };
            let Some(notifier) = worker.notifiers.try_install(job.run) else {
                return;
            };
            worker
                .claim_and_drive(job, notifier, (attempt, Some(suspicion)))
                .await;
            drop(place);
        });
    }

    /// ReadBudget among the crash_suspects, then a place. One whose workspace has none for long gives its room to others, and the sweeper
    /// comes back to it.
    async fn apart(&self, job: Job, attempt: u32) -> Option<(CrashSuspicion, run_slots::RunSlot)> {
        let suspicion = self.crash_suspects.room(attempt).await?;
        let mut free = self.places.watch();
        let place = async {
            loop {
                free.borrow_and_update();
                if let Some(place) = self.places.take(job.workspace) {
                    return Some(place);
                }
                free.changed().await.ok()?;
            }
        };
        let place = tokio::time::timeout(PLACE_WAIT, place).await.ok()??;
        Some((suspicion, place))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const RUN: RunNo = RunNo(7);

    /// What is let in now.
    fn now(crash_suspects: &CrashSuspects, attempt: u32) -> Option<CrashSuspicion> {
        crash_suspects.room(attempt).now_or_never().flatten()
    }

    #[tokio::test]
    async fn the_last_attempt_is_made_without_any_other_suspect() {
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
    async fn fewer_share_a_process_with_each_attempt() {
        let together = |attempt| {
            let crash_suspects = CrashSuspects::default();
            std::iter::from_fn(|| now(&crash_suspects, attempt).map(std::mem::forget)).count()
        };
        let counts: Vec<usize> = (TRUSTED + 1..=MAX_ATTEMPTS).map(together).collect();
        assert_eq!(counts, [16, 4, 1]);
    }

    #[tokio::test]
    async fn one_that_needs_all_the_room_is_not_overtaken() {
        let crash_suspects = CrashSuspects::default();
        let first = now(&crash_suspects, TRUSTED + 1);
        let mut alone = Box::pin(crash_suspects.room(MAX_ATTEMPTS));
        assert!((&mut alone).now_or_never().is_none());
        assert!(now(&crash_suspects, TRUSTED + 1).is_none());
        drop(first);
        assert!(alone.await.is_some());
    }

    #[test]
    fn a_run_waits_once_and_not_with_too_many() {
        let crash_suspects = CrashSuspects::default();
        assert!(crash_suspects.enter(RUN) && !crash_suspects.enter(RUN));
        crash_suspects.leave(RUN);
        let all = i64::try_from(WAITING).unwrap();
        assert!((0..all).all(|run| crash_suspects.enter(RunNo(run))));
        assert!(!crash_suspects.enter(RunNo(all)));
    }
}
