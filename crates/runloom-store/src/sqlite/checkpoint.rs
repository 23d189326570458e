//! Folding the write-ahead log into the database, beside the writer.
//!
//! Left alone, SQLite does it inside a commit, and whoever waits for that commit waits for megabytes to reach the disk. Here a
//! thread of its own folds while the writer goes on; when it is done the writer folds the little that was written meanwhile, after
//! its callers were told, and the log starts over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, hooks::Wal};

/// Pages in the log from which it is folded: 8 MiB. Each page is written once, however often the log holds it, which speaks for
/// more; commits share the disk with what is folded, which speaks for less.
const FOLD_AT: u32 = 2048;

/// Pages more before it is tried again when a reader that looks at the past was in the way.
const TRY_AGAIN_AFTER: u32 = 256;

/// The writer's side. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicU32>,
    fold_at: u32,
    folder: Option<Folder>,
    folding: bool,
}

/// The thread that folds.
#[derive(Debug)]
struct Folder {
    orders: SyncSender<()>,
    done: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Takes over the checkpoints of the connection that writes.
    pub(super) fn of(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&pages);
        // Replaces SQLite's own.
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            counted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            pages,
            fold_at: FOLD_AT,
            folder: Folder::beside(connection),
            folding: false,
        })
    }

    /// After a commit, when its callers were told.
    ///
    /// # Errors
    /// When the disk failed: nobody knows then what of the log and the database is on it, and nothing may be folded any more.
    pub(super) fn look(&mut self, connection: &Connection) -> Result<(), DiskFailed> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < FOLD_AT {
            self.fold_at = FOLD_AT;
        }
        if self.folding {
            let done = |folder: &Folder| {
                folder.done.swap(false, Ordering::Acquire)
                    || folder.thread.as_ref().is_none_or(JoinHandle::is_finished)
            };
            if self.folder.as_ref().is_none_or(done) {
                self.folding = false;
                self.fold_rest(connection, pages)?;
            }
        } else if pages >= self.fold_at {
            // Without a thread the writer does it all.
            self.folding = self.folder.as_ref().is_some_and(Folder::order);
            if !self.folding {
                self.fold_rest(connection, pages)?;
            }
        }
        Ok(())
    }

    /// Ends the thread when it is done with what it does.
    ///
    /// # Errors
    /// When the disk failed meanwhile.
    pub(super) fn end(mut self) -> Result<(), DiskFailed> {
        let Some(folder) = self.folder.take() else {
            return Ok(());
        };
        let failed = Arc::clone(&folder.failed);
        drop(folder);
        match failed.load(Ordering::Acquire) {
            true => Err(DiskFailed),
            false => Ok(()),
        }
    }

    fn fold_rest(&mut self, connection: &Connection, pages: u32) -> Result<(), DiskFailed> {
        let failed = |folder: &Folder| folder.failed.load(Ordering::Acquire);
        if self.folder.as_ref().is_some_and(failed) {
            return Err(DiskFailed);
        }
        // Unless a reader is in the way the log now starts over, and with it the count.
        self.fold_at = pages.saturating_add(TRY_AGAIN_AFTER);
        match fold(connection) {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be folded into the database; it grows");
                match is_of_the_disk(&error) {
                    true => Err(DiskFailed),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Writing or syncing failed while the log was folded.
#[derive(Debug)]
pub(super) struct DiskFailed;

/// A sync that failed fails once; the next one would say that all is well.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

impl Folder {
    /// `None` for a database without a file, and when there can be no thread: then the writer is slower now and then, and that is
    /// all.
    fn beside(writer: &Connection) -> Option<Self> {
        let path = writer.path().filter(|path| !path.is_empty())?;
        let started = connect(path).map_err(|error| error.to_string());
        let started = started
            .and_then(|connection| Self::start(connection).map_err(|error| error.to_string()));
        match started {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::warn!(error, "the write-ahead log is folded by the writer itself");
                None
            }
        }
    }

    fn start(connection: Connection) -> std::io::Result<Self> {
        let (orders, taken) = sync_channel(1);
        let done = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicBool::new(false));
        let told = (Arc::clone(&done), Arc::clone(&failed));
        let thread = std::thread::Builder::new()
            .name("sqlite-folder".to_owned())
            .spawn(move || serve(&connection, &taken, (&told.0, &told.1)))?;
        Ok(Self {
            orders,
            done,
            failed,
            thread: Some(thread),
        })
    }

    /// False when the thread is gone.
    fn order(&self) -> bool {
        self.orders.try_send(()).is_ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let (nobody, _) = sync_channel(1);
        self.orders = nobody;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that folds the write-ahead log ended with a panic");
        }
    }
}

fn connect(path: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -256;
         PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;",
    )?;
    Ok(connection)
}

fn serve(
    connection: &Connection,
    orders: &Receiver<()>,
    (done, failed): (&AtomicBool, &AtomicBool),
) {
    while orders.recv().is_ok() {
        if let Err(error) = fold(connection) {
            tracing::warn!(%error, "folding the write-ahead log failed");
            failed.fetch_or(is_of_the_disk(&error), Ordering::AcqRel);
        }
        done.store(true, Ordering::Release);
    }
}

/// Folds what no reader still needs unfolded, without waiting for anybody.
fn fold(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with one table; each write fills a page.
    fn database(path: &std::path::Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection
            .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
            .unwrap();
        connection
            .execute_batch(
                "PRAGMA synchronous = OFF; CREATE TABLE t (no INTEGER PRIMARY KEY, body BLOB)",
            )
            .unwrap();
        connection
    }

    fn write(connection: &Connection, checkpoints: &mut Checkpoints, pages: u32) {
        for _ in 0..pages {
            connection
                .execute("INSERT INTO t (body) VALUES (zeroblob(3500))", [])
                .unwrap();
            checkpoints.look(connection).unwrap();
        }
    }

    /// However slow the disk is: the test's own time limit is the end.
    fn until_it_starts_over(connection: &Connection, checkpoints: &mut Checkpoints) {
        let mut before = 0;
        loop {
            write(connection, checkpoints, 1);
            let pages = checkpoints.pages.load(Ordering::Relaxed);
            if pages < before {
                return;
            }
            before = pages;
        }
    }

    #[test]
    fn the_log_starts_over_while_the_writer_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let mut connection = database(&path);
        let mut checkpoints = Checkpoints::of(&mut connection).unwrap();
        assert!(checkpoints.folder.is_some());
        for _ in 0..2 {
            until_it_starts_over(&connection, &mut checkpoints);
        }
    }

    #[test]
    fn a_reader_of_the_past_delays_folding_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let mut connection = database(&path);
        let mut checkpoints = Checkpoints::of(&mut connection).unwrap();
        let reader = Connection::open(&path).unwrap();
        let count = |connection: &Connection| -> i64 {
            connection
                .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
                .unwrap()
        };
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), 0);
        write(&connection, &mut checkpoints, FOLD_AT + 100);
        assert_eq!(count(&reader), 0);
        reader.execute_batch("COMMIT").unwrap();
        until_it_starts_over(&connection, &mut checkpoints);
        let written = count(&connection);
        assert!(written > i64::from(FOLD_AT));
        drop(checkpoints);
        drop(connection);
        assert_eq!(count(&reader), written);
    }

    #[test]
    fn a_disk_that_failed_once_is_not_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut connection = database(&dir.path().join("t.db"));
        let mut checkpoints = Checkpoints::of(&mut connection).unwrap();
        let folder = checkpoints.folder.as_ref().unwrap();
        folder.failed.store(true, Ordering::Release);
        checkpoints.pages.store(FOLD_AT, Ordering::Relaxed);
        while checkpoints.look(&connection).is_ok() {
            std::thread::yield_now();
        }
        assert!(checkpoints.end().is_err(), "nor at the end");
    }

    #[test]
    fn a_database_without_a_file_needs_no_thread() {
        let mut connection = Connection::open_in_memory().unwrap();
        let mut checkpoints = Checkpoints::of(&mut connection).unwrap();
        assert!(checkpoints.folder.is_none());
        checkpoints.look(&connection).unwrap();
    }
}
