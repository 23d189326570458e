//! The one thread that writes, with group commit.
//!
//! Whatever waits when a transaction begins goes into it together and shares its fsync; only after the commit are the callers told.

use std::sync::Arc;
use std::thread::JoinHandle;

use runloom_core::ports::store::StoreResult;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::desk::{Desk, Job, Tx, Typed};
use super::error::broken;
use super::leases::Workers;

/// Jobs that share one transaction at most: bounds how long the first of them waits for the last.
const GROUP: usize = 1_024;

/// Jobs that wait for the thread before callers have to wait for room.
const WAITING: usize = 4_096;

/// The handle to the thread. Dropping it finishes what waits, checkpoints and joins.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(connection: Connection, workers: Arc<Workers>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let desk = Desk::new(connection, workers);
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || serve(desk, receiver))?;
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
        let (job, answer) = Typed::new(kind, work);
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

fn serve(mut desk: Desk, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
    let mut group = Vec::with_capacity(GROUP);
    while jobs.blocking_recv_many(&mut group, GROUP) > 0 {
        desk.commit(&mut group);
        desk.fold();
    }
    desk.close();
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
