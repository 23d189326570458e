//! Where transactions are made: the connection that writes, and what is remembered beside it.
//!
//! A job that fails takes the whole group back, and then each of its jobs gets a transaction of its own, so that one poisoned job
//! fails alone. Refusals are not failures: a job decides them before its first write and returns them as values.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use runloom_ports::crash;
use runloom_ports::instruments::STORE_METRICS;
use runloom_ports::store::{StoreError, StoreErrorKind, StoreResult};
use rusqlite::{Connection, ToSql};
use tokio::sync::oneshot;

use super::checkpoint::Checkpoints;
use super::error::Reason;
use super::keeper::{Keeper, Kept};
use super::leases::{Held, Workers};
use super::redo::Draft;

/// What a job works with: the connection inside a transaction, and what the writer remembers.
pub(super) struct Tx<'a> {
    /// For reading. Whatever changes something goes through [`Tx::execute`].
    pub(super) connection: &'a Connection,
    pub(super) draft: &'a RefCell<Draft>,
    pub(super) held: &'a mut Held,
    pub(super) workers: &'a Workers,
}

impl Tx<'_> {
    /// Runs one statement, prepared once, and notes it down for the redo file. What it does must follow from the statement, its values
    /// and the database alone.
    pub(super) fn execute(&self, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let expected = statement.parameter_count();
        if values.len() != expected {
            return Err(rusqlite::Error::InvalidParameterCount(
                values.len(),
                expected,
            ));
        }
        let mut draft = self.draft.borrow_mut();
        draft.statement(sql, values.len());
        for (index, value) in (1..).zip(values) {
            let value = value.to_sql()?;
            draft.value(&value);
            statement.raw_bind_parameter(index, value)?;
        }
        let rows = statement.raw_execute()?;
        draft.executed(rows);
        Ok(rows)
    }
}

/// A piece of work with its types erased.
pub(super) trait Job: Send {
    fn kind(&self) -> &'static str;
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;
    fn succeed(self: Box<Self>);
    fn fail(self: Box<Self>, error: StoreError);
}

/// A piece of work, and who waits for it.
pub(super) struct Typed<T, F> {
    kind: &'static str,
    work: F,
    outcome: Option<T>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> Typed<T, F> {
    /// The work, and where its outcome will be.
    pub(super) fn new(
        kind: &'static str,
        work: F,
    ) -> (Box<Self>, oneshot::Receiver<StoreResult<T>>) {
        let (reply, answer) = oneshot::channel();
        let typed = Self {
            kind,
            work,
            outcome: None,
            reply,
        };
        (Box::new(typed), answer)
    }
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

/// Where jobs meet the connection that writes. One group at a time is executed on it.
pub(super) struct Desk {
    keeper: Keeper,
    workers: Arc<Workers>,
    held: Held,
    /// `None` when SQLite folds the log itself, in the middle of commits.
    checkpoints: Option<Checkpoints>,
}

impl Desk {
    pub(super) fn new(mut keeper: Keeper, workers: Arc<Workers>) -> Self {
        let checkpoints = Checkpoints::of(keeper.connection_mut())
            .inspect_err(|error| {
                tracing::warn!(%error, "the write-ahead log is folded in the middle of commits");
            })
            .ok();
        Self {
            keeper,
            workers,
            held: Held::default(),
            checkpoints,
        }
    }

    /// Makes a group durable, together if possible, and tells every caller.
    pub(super) fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        let began = Instant::now();
        match self.transact(group) {
            Ok(()) => {
                STORE_METRICS.commits.add(1);
                STORE_METRICS.commit_time.took(began.elapsed());
                STORE_METRICS.commit_size.held(group.len());
                group.drain(..).for_each(Job::succeed);
            }
            Err(Failure::Job(_)) if group.len() > 1 => {
                for job in group.drain(..) {
                    self.commit(&mut vec![job]);
                }
            }
            Err(Failure::Job(reason) | Failure::Transaction(reason)) => {
                STORE_METRICS.commit_failures.add(group.len() as u64);
                tracing::error!(error = reason.text, jobs = group.len(), "a write failed");
                group.drain(..).for_each(|job| job.fail(reason.error()));
            }
        }
    }

    /// True while readers would miss something that was promised.
    pub(super) fn is_behind(&self) -> bool {
        self.keeper.is_behind()
    }

    /// Lets readers see all that was promised.
    pub(super) fn settle(&mut self) -> Result<(), Reason> {
        let settled = self.keeper.settle();
        self.settled(settled.map(|()| true))
    }

    /// After a group, when its callers were told: settles when it is time, and sees to SQLite's log, which may take as long as
    /// megabytes take to reach the disk.
    pub(super) fn tidy(&mut self) {
        let settled = self.keeper.look();
        // Who needs it is told when it is tried again.
        let _ = self.settled(settled);
    }

    fn settled(&mut self, outcome: Result<bool, Reason>) -> Result<(), Reason> {
        if self.keeper.is_lost() {
            self.checkpoints = None;
        }
        match outcome {
            Ok(false) => Ok(()),
            Ok(true) => {
                let connection = self.keeper.connection();
                let looked = self.checkpoints.as_mut().map(|all| all.look(connection));
                if looked.is_some_and(|looked| looked.is_err()) {
                    self.keeper.lose();
                    self.checkpoints = None;
                }
                Ok(())
            }
            Err(reason) => {
                tracing::error!(
                    error = reason.text,
                    "the database could not be brought up to what was promised; it will be tried again"
                );
                self.take_back();
                Err(reason)
            }
        }
    }

    /// The last thing that is done here.
    pub(super) fn close(&mut self) {
        let ended = self.checkpoints.take().map(Checkpoints::end);
        if ended.is_some_and(|ended| ended.is_err()) {
            self.keeper.lose();
        }
        if let Err(reason) = self.keeper.close() {
            tracing::warn!(
                error = reason.text,
                "the database was not brought up to date at the end; the next start does it"
            );
        }
    }

    /// Executes the jobs and makes them durable. When that fails, nothing of them is left: not in the file, not in memory.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        let outcome = self.try_transact(jobs);
        if outcome.is_err() {
            self.take_back();
        }
        outcome
    }

    fn take_back(&mut self) {
        self.held.forget_all();
        self.keeper.take_back();
    }

    fn try_transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        self.keeper.begin().map_err(Failure::Transaction)?;
        self.execute(jobs)?;
        pass("before_commit", jobs);
        if self.keeper.keep().map_err(Failure::Transaction)? == Kept::TooLarge {
            self.take_back();
            self.keeper.begin_alone().map_err(Failure::Transaction)?;
            self.execute(jobs)?;
            self.keeper.keep_alone().map_err(Failure::Transaction)?;
        }
        pass("after_commit", jobs);
        Ok(())
    }

    fn execute(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        for job in jobs {
            let mut tx = Tx {
                connection: self.keeper.connection(),
                draft: self.keeper.draft(),
                held: &mut self.held,
                workers: &self.workers,
            };
            // The job is dropped after a panic and the transaction rolled back: nothing half-done is seen again.
            match catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Failure::of(error.into())),
                Err(_) => {
                    return Err(Failure::Job(Reason {
                        kind: StoreErrorKind::Broken,
                        text: format!("the job {:?} panicked", job.kind()),
                    }));
                }
            }
        }
        Ok(())
    }
}

impl Failure {
    /// A disk that is full is not one job's fault.
    fn of(reason: Reason) -> Self {
        match reason.kind {
            StoreErrorKind::Unavailable => Self::Transaction(reason),
            StoreErrorKind::Broken => Self::Job(reason),
        }
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
