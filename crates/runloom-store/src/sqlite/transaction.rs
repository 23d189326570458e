//! Transactions of the connection that writes: jobs run in groups, and a group is one transaction.
//!
//! A job that fails rolls the whole group back, and then each of its jobs gets a transaction of its own, so that only
//! the faulty job fails. A refusal (for example a stale lease) is not a failure: the job returns it as a value before
//! its first write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use runloom_ports::crash;
use runloom_ports::instruments::STORE_METRICS;
use runloom_ports::store::{StoreError, StoreErrorKind, StoreResult};
use rusqlite::{Connection, ToSql};
use tokio::sync::oneshot;

use super::database::Database;
use super::error::WriteError;
use super::leases::{Held, Workers};

/// What a job works with: the connection inside a transaction, and the leases that the writer remembers.
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(super) held: &'a mut Held,
    pub(super) workers: &'a Workers,
}

impl Tx<'_> {
    /// Executes one statement from the statement cache and returns the number of changed rows.
    pub(super) fn execute(&self, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(values)
    }
}

/// A job with its types erased.
pub(super) trait Job: Send {
    /// Name of the job for crash points and errors.
    fn kind(&self) -> &'static str;
    /// Executes the job inside a transaction. May be called more than once.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;
    /// Sends the outcome of the last [`Job::run`] to the caller.
    fn succeed(self: Box<Self>);
    /// Sends an error to the caller.
    fn fail(self: Box<Self>, error: StoreError);
}

/// A job and the channel to its caller.
pub(super) struct TypedJob<T, F> {
    kind: &'static str,
    work: F,
    outcome: Option<T>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> TypedJob<T, F> {
    /// Returns the job and the receiver of its outcome.
    pub(super) fn new(
        kind: &'static str,
        work: F,
    ) -> (Box<Self>, oneshot::Receiver<StoreResult<T>>) {
        let (reply, outcome) = oneshot::channel();
        let job = Self {
            kind,
            work,
            outcome: None,
            reply,
        };
        (Box::new(job), outcome)
    }
}

impl<T, F> Job for TypedJob<T, F>
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
        // The send fails when the caller has gone away; its write stays committed.
        if let Some(outcome) = self.outcome {
            let _ = self.reply.send(Ok(outcome));
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

/// Why a transaction was rolled back.
enum Failure {
    /// One of the jobs failed; the others may succeed without it.
    Job(WriteError),
    /// The transaction itself failed; no job would succeed.
    Transaction(WriteError),
}

/// Executes groups of jobs on the connection that writes.
pub(super) struct Transactions {
    database: Database,
    workers: Arc<Workers>,
    held: Held,
}

impl Transactions {
    pub(super) fn new(database: Database, workers: Arc<Workers>) -> Self {
        Self {
            database,
            workers,
            held: Held::default(),
        }
    }

    /// The connection that writes.
    pub(super) fn connection(&self) -> &Connection {
        self.database.connection()
    }

    /// Commits the jobs, in one transaction if possible, and answers every caller.
    pub(super) fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        let started = Instant::now();
        match self.transact(group) {
            Ok(()) => {
                STORE_METRICS.commits.add(1);
                STORE_METRICS.commit_time.took(started.elapsed());
                STORE_METRICS.commit_size.held(group.len());
                group.drain(..).for_each(Job::succeed);
            }
            Err(Failure::Job(_)) if group.len() > 1 => {
                for job in group.drain(..) {
                    self.commit(&mut vec![job]);
                }
            }
            Err(Failure::Job(error) | Failure::Transaction(error)) => {
                STORE_METRICS.commit_failures.add(group.len() as u64);
                tracing::error!(error = error.text, jobs = group.len(), "write failed");
                group.drain(..).for_each(|job| job.fail(error.to_store()));
            }
        }
    }

    /// Executes and commits the jobs. After an error nothing of them is left, neither in the database nor in memory.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        let outcome = self.try_transact(jobs);
        if outcome.is_err() {
            self.held.forget_all();
            if let Err(error) = self.roll_back() {
                tracing::error!(error = error.text, "rollback failed; retrying");
            }
        }
        outcome
    }

    fn try_transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        self.roll_back().map_err(Failure::Transaction)?;
        self.statement("BEGIN IMMEDIATE")
            .map_err(Failure::Transaction)?;
        self.execute(jobs)?;
        crash_point("before_commit", jobs);
        self.statement("COMMIT").map_err(Failure::Transaction)?;
        crash_point("after_commit", jobs);
        Ok(())
    }

    /// Rolls back what is open. SQLite has done so already after some errors, for example a full disk.
    fn roll_back(&self) -> Result<(), WriteError> {
        if self.connection().is_autocommit() {
            return Ok(());
        }
        self.statement("ROLLBACK")
    }

    fn execute(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        for job in jobs {
            let mut tx = Tx {
                connection: self.database.connection(),
                held: &mut self.held,
                workers: &self.workers,
            };
            // After a panic the job is dropped and the transaction rolled back, so nothing half-done is seen again.
            match catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Failure::of(error.into())),
                Err(_) => {
                    return Err(Failure::Job(WriteError {
                        kind: StoreErrorKind::Broken,
                        text: format!("the job {:?} panicked", job.kind()),
                    }));
                }
            }
        }
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), WriteError> {
        self.connection().prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

impl Failure {
    /// An unavailable database (for example a full disk) is not the fault of one job.
    fn of(error: WriteError) -> Self {
        match error.kind {
            StoreErrorKind::Unavailable => Self::Transaction(error),
            StoreErrorKind::Broken => Self::Job(error),
        }
    }
}

/// Passes the crash points of a transaction's jobs.
fn crash_point(stage: &str, jobs: &[Box<dyn Job>]) {
    if crash::is_armed() {
        crash::point(stage);
        for job in jobs {
            crash::point_of(stage, job.kind());
        }
    }
}
