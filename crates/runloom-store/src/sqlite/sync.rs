//! Syncing SQLite's log, beside the writer.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// SQLite's log, and the thread that syncs it. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct LogSync {
    log: File,
    orders: Option<SyncSender<()>>,
    done: Receiver<io::Result<()>>,
    under_way: bool,
    thread: Option<JoinHandle<()>>,
}

impl LogSync {
    /// Of the database at `path`, which must have a log.
    pub(super) fn beside(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let log = File::options().write(true).open(path)?;
        let (orders, ordered) = sync_channel::<()>(1);
        let (told, done) = sync_channel(1);
        let own = log.try_clone()?;
        let thread = std::thread::Builder::new()
            .name("sqlite-sync".to_owned())
            .spawn(
                move || {
                    while ordered.recv().is_ok() && told.send(own.sync_data()).is_ok() {}
                },
            )?;
        Ok(Self {
            log,
            orders: Some(orders),
            done,
            under_way: false,
            thread: Some(thread),
        })
    }

    /// What is in the log is durable when this returns.
    pub(super) fn now(&mut self) -> io::Result<()> {
        self.finish()?;
        self.log.sync_data()
    }

    /// What is in the log now is durable when [`Self::finish`] returns. The order before must be finished.
    pub(super) fn order(&mut self) -> io::Result<()> {
        let orders = self.orders.as_ref();
        self.under_way = orders.is_some_and(|orders| orders.try_send(()).is_ok());
        if self.under_way {
            return Ok(());
        }
        self.log.sync_data()
    }

    /// Waits for what was ordered.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(());
        }
        let gone = || io::Error::other("the thread that syncs is gone");
        self.done.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for LogSync {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that syncs SQLite's log ended with a panic");
        }
    }
}
