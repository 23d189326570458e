//! Syncing SQLite's log: beside the writer, and before anything is made of one that a former process left.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::OpenError;

/// Bytes of the log that are written again at once.
const PIECE: usize = 1 << 20;

/// Writes the log that a former process left once more, as it is, and syncs it. When a sync fails, the system may go on to show what never
/// came to the disk, and count it as written: whoever trusted that log could lose what the redo file still had. Harmless wherever it is interrupted,
/// because it changes nothing. Before SQLite opens the database.
pub(super) fn renew(database: &Path) -> Result<(), OpenError> {
    let path = log_of(database);
    let renewed = || -> io::Result<()> {
        let mut log = match File::options().read(true).write(true).open(&path) {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let (mut piece, mut offset) = (vec![0; PIECE], 0);
        loop {
            log.seek(SeekFrom::Start(offset))?;
            let read = log.read(&mut piece)?;
            if read == 0 {
                break;
            }
            log.seek(SeekFrom::Start(offset))?;
            log.write_all(&piece[..read])?;
            offset += read as u64;
        }
        match offset {
            0 => Ok(()),
            _ => log.sync_all(),
        }
    };
    renewed().map_err(|source| OpenError::File {
        doing: "syncing SQLite's log",
        path: path.clone(),
        source,
    })
}

fn log_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

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
        let log = File::options().write(true).open(log_of(database))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_left_is_written_again_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("t.db");
        renew(&database).unwrap();
        assert!(!log_of(&database).exists(), "none is made");
        let bytes: Vec<u8> = (0..PIECE * 2 + 777).map(|n| (n % 251) as u8).collect();
        std::fs::write(log_of(&database), &bytes).unwrap();
        renew(&database).unwrap();
        assert_eq!(std::fs::read(log_of(&database)).unwrap(), bytes);
    }
}
