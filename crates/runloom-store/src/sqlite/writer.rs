//! Writing, with group commit.
//!
//! Whatever waits when a transaction begins goes into it together and shares its fsync; only after the commit are the callers
//! told. A thread does that. Going there and back costs a caller two wake-ups of threads, which is as much as a quick disk takes:
//! so while one caller at a time writes, and the disk is quick, the caller's own thread commits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use runloom_core::ports::store::StoreResult;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::desk::{Desk, Job, Tx, Typed};
use super::error::broken;
use super::leases::Workers;

/// Jobs that share one transaction at most: bounds how long the first of them waits for the last.
const GROUP: usize = 1_024;

/// Jobs that wait for the thread before callers have to wait for room.
const WAITING: usize = 4_096;

/// Commits of one job each after which it is calm.
const CALM_AFTER: u32 = 8;

/// A commit that takes longer is too long for a thread that others wait for.
const QUICK: Duration = Duration::from_millis(1);

/// The handle to the thread. Dropping it finishes what waits, checkpoints and joins.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What the thread and its callers share.
struct Shared {
    desk: Mutex<Desk>,
    /// Quick commits of one job, one after the other.
    calm: AtomicU32,
    quick: Duration,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(connection: Connection, workers: Arc<Workers>) -> std::io::Result<Self> {
        Self::with(connection, workers, QUICK)
    }

    fn with(
        connection: Connection,
        workers: Arc<Workers>,
        quick: Duration,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk::new(connection, workers)),
            calm: AtomicU32::new(0),
            quick,
        });
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || writing.serve(receiver))?;
        Ok(Self {
            jobs: Some(sender),
            thread: Some(thread),
            shared,
        })
    }

    /// Runs `work` in a transaction and answers when it is durable. It may run more than once; only what the last time wrote is
    /// kept. `kind` names it for crash tests.
    pub(super) async fn run<T, F>(&self, kind: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (job, answer) = Typed::new(kind, work);
        self.send(job).await?;
        answer.await.map_err(|_| broken(GONE))?
    }

    /// The same for the steps of a run, which are short and waited for: on the caller's own thread while it is calm.
    pub(super) async fn run_short<T, F>(&self, kind: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (job, answer) = Typed::new(kind, work);
        let mut job: Option<Box<dyn Job>> = Some(job);
        if self.shared.is_calm() && let_others_go_on().await {
            job = job.and_then(|job| self.shared.commit_here(job));
        }
        if let Some(waits) = job {
            self.send(waits).await?;
        }
        answer.await.map_err(|_| broken(GONE))?
    }

    async fn send(&self, job: Box<dyn Job>) -> StoreResult<()> {
        let jobs = self.jobs.as_ref().ok_or_else(|| broken(GONE))?;
        jobs.send(job).await.map_err(|_| broken(GONE))
    }
}

const GONE: &str = "the store's writer is gone";

/// Before this thread waits for the disk. False when there is no other that could go on meanwhile.
#[expect(
    clippy::disallowed_methods,
    reason = "two tasks that do nothing and are over at once"
)]
async fn let_others_go_on() -> bool {
    let other = Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1);
    if other {
        // What is ready goes first: the request to a model that the caller has begun is on its way while this is written.
        tokio::task::yield_now().await;
        // The last task that is woken is kept for this thread, and the first that is not wakes another thread, which then looks after
        // timers and sockets. So nothing waits here but the two of them. Yielding alone wakes another thread only when this one had
        // nothing else to do and did not just then look after sockets itself.
        tokio::spawn(async {});
        tokio::spawn(async {});
    }
    other
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer ended with a panic");
        }
    }
}

impl Shared {
    fn serve(&self, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
        let mut group = Vec::with_capacity(GROUP);
        while jobs.blocking_recv_many(&mut group, GROUP) > 0 {
            let mut desk = self.lock();
            // Those that came while somebody else was here.
            while group.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            self.commit(&mut desk, &mut group);
            if desk.is_folding() {
                self.calm.store(0, Ordering::Relaxed);
            }
            desk.fold();
        }
        self.lock().close();
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed) >= CALM_AFTER
    }

    /// Commits on the caller's thread, or gives the job back when it has to wait.
    fn commit_here(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let Ok(mut desk) = self.desk.try_lock() else {
            self.calm.store(0, Ordering::Relaxed);
            return Some(job);
        };
        self.commit(&mut desk, &mut vec![job]);
        if desk.is_folding() {
            // The thread sees to that after its next commit.
            self.calm.store(0, Ordering::Relaxed);
        }
        None
    }

    fn commit(&self, desk: &mut Desk, group: &mut Vec<Box<dyn Job>>) {
        let alone = group.len() == 1;
        let took = desk.commit(group);
        if alone && took < self.quick {
            self.calm.fetch_add(1, Ordering::Relaxed);
        } else {
            self.calm.store(0, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        // A job that panics is caught and its transaction rolled back: what is behind the lock is never half-done.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "hanging_disk_tests.rs"]
mod hanging_disk;
