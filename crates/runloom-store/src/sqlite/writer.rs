//! The writer thread: the only one that writes, with group commit.
//!
//! All jobs that wait are executed in one transaction and made durable by one commit; then the callers are answered.

use std::sync::Arc;
use std::thread::JoinHandle;

use runloom_ports::store::StoreResult;
use tokio::sync::mpsc;

use super::checkpoint::Checkpoints;
use super::database::Database;
use super::error::broken;
use super::leases::Workers;
use super::transaction::{Job, Transactions, Tx, TypedJob};

/// Jobs per transaction at most; bounds how long the first of them waits for the last.
const MAX_GROUP: usize = 1_024;

/// Jobs that wait for the thread at most; further callers wait for room.
const QUEUE_CAPACITY: usize = 4_096;

/// The handle to the thread. Dropping it commits the jobs that wait, closes the database and joins the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` only while the writer is dropped.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(database: Database, workers: Arc<Workers>) -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel(QUEUE_CAPACITY);
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || serve(database, workers, jobs))?;
        Ok(Self {
            jobs: Some(sender),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and answers when it is committed. `work` may run more than once; only the writes
    /// of its last run are kept. `kind` names the job for crash tests.
    pub(crate) async fn run<T, F>(&self, kind: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let stopped = || broken("the SQLite writer has stopped");
        let (job, outcome) = TypedJob::new(kind, work);
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(job).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("SQLite writer panicked");
        }
    }
}

fn serve(mut database: Database, workers: Arc<Workers>, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
    let mut checkpoints = Checkpoints::start(database.connection_mut());
    let mut transactions = Transactions::new(database, workers);
    let mut group = Vec::with_capacity(MAX_GROUP);
    while jobs.blocking_recv_many(&mut group, MAX_GROUP) > 0 {
        transactions.commit(&mut group);
        checkpoints.run_if_due(transactions.connection());
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
