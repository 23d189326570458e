//! The one thread that writes, with group commit.
//!
//! Whatever waits when a transaction begins goes into it together and shares its fsync; only after the commit are the callers
//! told. A job that fails takes the whole group back, and then each of its jobs gets a transaction of its own, so that one
//! poisoned job fails alone. Refusals are not failures: a job decides them before its first write and returns them as values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use runloom_core::crash;
use runloom_core::metrics::METRICS;
use runloom_core::ports::store::{StoreError, StoreErrorKind, StoreResult};
use rusqlite::{Connection, Params};
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpoints;
use super::error::{broken, kind_of};
use super::leases::{Held, Workers};

/// Jobs that share one transaction at most: bounds how long the first of them waits for the last.
const GROUP: usize = 1_024;

/// Jobs that wait for the thread before callers have to wait for room.
const WAITING: usize = 4_096;

/// What a job works with: the connection inside a transaction, and what the writer remembers.
pub(super) struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) held: &'a mut Held,
    pub(super) workers: &'a Workers,
}

impl Tx<'_> {
    /// Runs one statement, prepared once.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(params)
    }
}

/// The handle to the thread. Dropping it finishes what waits, checkpoints and joins.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread; it owns the connection from now on.
    pub(super) fn start(connection: Connection, workers: Arc<Workers>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let state = Thread {
            connection,
            workers,
            held: Held::default(),
        };
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || state.serve(receiver))?;
        Ok(Self {
            jobs: Some(sender),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and answers when it is durable. It may run more than once; only what the last time wrote is
    /// kept. `kind` names it for crash tests.
    pub(super) async fn run<T, F>(&self, kind: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Typed {
            kind,
            work,
            outcome: None,
            reply,
        });
        let jobs = self.jobs.as_ref().ok_or_else(|| broken(GONE))?;
        jobs.send(job).await.map_err(|_| broken(GONE))?;
        answer.await.map_err(|_| broken(GONE))?
    }
}

const GONE: &str = "the store's writer is gone";

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

/// A piece of work with its types erased.
trait Job: Send {
    fn kind(&self) -> &'static str;
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;
    fn succeed(self: Box<Self>);
    fn fail(self: Box<Self>, error: StoreError);
}

struct Typed<T, F> {
    kind: &'static str,
    work: F,
    outcome: Option<T>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> Job for Typed<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send,
{
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.outcome = Some((self.work)(tx)?);
        Ok(())
    }

    fn succeed(self: Box<Self>) {
        // A caller that has gone away is not told; its work is kept all the same.
        if let Some(outcome) = self.outcome {
            let _ = self.reply.send(Ok(outcome));
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

/// Why a transaction was taken back.
enum Failure {
    /// One of the jobs failed: others may succeed without it.
    Job(Reason),
    /// The transaction itself failed: nothing would succeed.
    Transaction(Reason),
}

struct Reason {
    kind: StoreErrorKind,
    text: String,
}

impl Reason {
    fn of(error: &rusqlite::Error) -> Self {
        Self {
            kind: kind_of(error),
            text: error.to_string(),
        }
    }

    fn error(&self) -> StoreError {
        StoreError {
            kind: self.kind,
            message: "writing to the SQLite database failed".to_owned(),
            source: Some(self.text.clone().into()),
        }
    }
}

struct Thread {
    connection: Connection,
    workers: Arc<Workers>,
    held: Held,
}

impl Thread {
    fn serve(mut self, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
        let mut checkpoints = match Checkpoints::of(&mut self.connection) {
            Ok(checkpoints) => Some(checkpoints),
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log is folded in the middle of commits");
                None
            }
        };
        let mut group = Vec::with_capacity(GROUP);
        while jobs.blocking_recv_many(&mut group, GROUP) > 0 {
            self.commit(&mut group);
            if let Some(checkpoints) = &mut checkpoints {
                checkpoints.look(&self.connection);
            }
        }
        drop(checkpoints);
        let checkpointed = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = checkpointed {
            tracing::warn!(%error, "the write-ahead log was not folded into the database at the end");
        }
    }

    /// Commits a group, together if possible, and tells every caller.
    fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        let began = Instant::now();
        match self.transact(group) {
            Ok(()) => {
                METRICS.commits.add(1);
                METRICS.commit_time.took(began.elapsed());
                METRICS.commit_size.held(group.len());
                group.drain(..).for_each(Job::succeed);
            }
            Err(Failure::Job(_)) if group.len() > 1 => {
                for job in group.drain(..) {
                    self.commit_alone(job);
                }
            }
            Err(Failure::Job(reason) | Failure::Transaction(reason)) => {
                METRICS.commit_failures.add(group.len() as u64);
                tracing::error!(error = reason.text, jobs = group.len(), "a write failed");
                group.drain(..).for_each(|job| job.fail(reason.error()));
            }
        }
    }

    fn commit_alone(&mut self, job: Box<dyn Job>) {
        let mut alone = vec![job];
        self.commit(&mut alone);
    }

    /// One transaction over the jobs. When it fails, nothing of it is left: not in the file, not in memory.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        let outcome = self.try_transact(jobs);
        if outcome.is_err() {
            self.held.forget_all();
            // Some errors (disk full) have rolled back already.
            if !self.connection.is_autocommit()
                && let Err(error) = self.statement("ROLLBACK")
            {
                tracing::error!(%error, "a failed transaction could not be rolled back");
            }
        }
        outcome
    }

    fn try_transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        let failed = |error: rusqlite::Error| Failure::Transaction(Reason::of(&error));
        self.statement("BEGIN IMMEDIATE").map_err(failed)?;
        for job in jobs.iter_mut() {
            let mut tx = Tx {
                connection: &self.connection,
                held: &mut self.held,
                workers: &self.workers,
            };
            // The job is dropped after a panic and the transaction rolled back: nothing half-done is seen again.
            match catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Failure::Job(Reason::of(&error))),
                Err(_) => {
                    return Err(Failure::Job(Reason {
                        kind: StoreErrorKind::Broken,
                        text: format!("the job {:?} panicked", job.kind()),
                    }));
                }
            }
        }
        pass("before_commit", jobs);
        self.statement("COMMIT").map_err(failed)?;
        pass("after_commit", jobs);
        Ok(())
    }

    fn statement(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// Passes the crash points of a transaction's jobs.
fn pass(stage: &str, jobs: &[Box<dyn Job>]) {
    if crash::is_armed() {
        crash::point(stage);
        for job in jobs {
            crash::point_of(stage, job.kind());
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
