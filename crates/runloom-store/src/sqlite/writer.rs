//! The one thread that writes, with group commit.
//!
//! Whatever waits is executed together and made durable with one write; only then are the callers told.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use runloom_ports::store::StoreResult;
use tokio::sync::oneshot;

use super::desk::{Desk, Job, Tx, Typed};
use super::error::{Reason, broken};
use super::keeper::Keeper;
use super::leases::Workers;
use super::queue::{Queue, Taken};

/// Jobs that share one transaction at most: bounds how long the first of them waits for the last.
const GROUP: usize = 1_024;

/// Jobs that wait for the thread before callers have to wait for room.
const WAITING: usize = 4_096;

/// Quiet after which what is not settled is settled.
const QUIET: Duration = Duration::from_millis(50);

/// The same where it fails again and again.
const QUIET_AT_MOST: Duration = Duration::from_secs(5);

/// The handle to the thread. Dropping it finishes what waits, checkpoints and joins.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue<Order>>,
    behind: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is asked to do.
enum Order {
    Job(Box<dyn Job>),
    Settle(oneshot::Sender<StoreResult<()>>),
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => f.write_str(job.kind()),
            Self::Settle(_) => f.write_str("settle"),
        }
    }
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(keeper: Keeper, workers: Arc<Workers>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(WAITING));
        let behind = keeper.behind();
        let desk = Desk::new(keeper, workers);
        let orders = Ends(Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || serve(desk, &orders))?;
        Ok(Self {
            queue,
            behind,
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
        let sent = self.queue.send(Order::Job(job)).await;
        sent.map_err(|_| broken(GONE))?;
        answer.await.map_err(|_| broken(GONE))?
    }

    /// Waits until other connections see everything that was answered before.
    pub(super) async fn settled(&self) -> StoreResult<()> {
        if !self.behind.load(Ordering::Acquire) {
            return Ok(());
        }
        let (told, answer) = oneshot::channel();
        let sent = self.queue.send(Order::Settle(told)).await;
        sent.map_err(|_| broken(GONE))?;
        answer.await.map_err(|_| broken(GONE))?
    }
}

const GONE: &str = "the store's writer is gone";

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer ended with a panic");
        }
    }
}

/// The thread's end of the queue: whatever ends the thread, nobody waits for it any longer.
struct Ends(Arc<Queue<Order>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn serve(mut desk: Desk, Ends(queue): &Ends) {
    let mut orders = Vec::with_capacity(GROUP);
    let mut group = Vec::with_capacity(GROUP);
    let mut readers = Vec::new();
    let mut quiet = QUIET;
    loop {
        let patience = desk.is_behind().then_some(quiet);
        match queue.take(&mut orders, GROUP, patience) {
            Taken::Some => {}
            Taken::Nothing => {
                // Where the disk is full, it may be for long.
                quiet = match desk.settle() {
                    Ok(()) => QUIET,
                    Err(_) => (quiet * 2).min(QUIET_AT_MOST),
                };
                continue;
            }
            Taken::Closed => break,
        }
        for order in orders.drain(..) {
            match order {
                Order::Job(job) => group.push(job),
                Order::Settle(reader) => readers.push(reader),
            }
        }
        if !group.is_empty() {
            desk.commit(&mut group);
        }
        if !readers.is_empty() {
            let settled = desk.settle();
            for reader in readers.drain(..) {
                let _ = reader.send(settled.as_ref().map(drop).map_err(Reason::error));
            }
        }
        desk.tidy();
    }
    desk.close();
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
