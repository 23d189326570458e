//! Checkpoints: copying the write-ahead log into the database file.
//!
//! By default SQLite checkpoints inside a commit, and the callers that wait for that commit wait for the checkpoint
//! as well. Here the writer starts it between two groups, after the callers of the last one were answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, hooks::Wal};

/// Pages in the log from which on it is checkpointed: 16 MiB. A checkpoint writes each changed page once, however
/// often the log has it, so that rare checkpoints write less; the log is read at the start after a crash, which
/// bounds it.
const CHECKPOINT_AT: u32 = 4_096;

/// Pages that are added to the log before the next try, when a reader of an old snapshot kept a checkpoint from
/// completing.
const RETRY_AFTER: u32 = 512;

/// When the writer's connection checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicU32>,
    next_at: u32,
}

impl Checkpoints {
    /// Replaces SQLite's automatic checkpoints of the connection. If that fails, they stay on.
    pub(super) fn start(connection: &mut Connection) -> Self {
        let pages = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&pages);
        let hooked = connection.wal_hook(Some(move |_: &mut Wal, pages| {
            counter.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }));
        if let Err(error) = hooked {
            tracing::warn!(%error, "SQLite checkpoints inside commits");
        }
        Self {
            pages,
            next_at: CHECKPOINT_AT,
        }
    }

    /// Checkpoints when the log is long enough. After a complete checkpoint the next commit starts the log over.
    pub(super) fn run_if_due(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_AT {
            self.next_at = CHECKPOINT_AT;
        }
        if pages < self.next_at {
            return;
        }
        self.next_at = pages.saturating_add(RETRY_AFTER);
        if let Err(error) = checkpoint(connection) {
            tracing::warn!(%error, pages, "checkpoint failed; the write-ahead log grows");
        }
    }
}

/// Copies what no reader needs unchanged, without waiting for readers.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Database {
        folder: tempfile::TempDir,
        writer: Connection,
        checkpoints: Checkpoints,
    }

    impl Database {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = Connection::open(folder.path().join("t.db")).unwrap();
            writer
                .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
                .unwrap();
            writer
                .execute_batch(
                    "PRAGMA synchronous = OFF; CREATE TABLE t (no INTEGER PRIMARY KEY, body BLOB)",
                )
                .unwrap();
            let checkpoints = Checkpoints::start(&mut writer);
            Self {
                folder,
                writer,
                checkpoints,
            }
        }

        /// Another connection to the database.
        fn reader(&self) -> Connection {
            Connection::open(self.folder.path().join("t.db")).unwrap()
        }

        /// Commits one row that fills a page, and returns the length of the log.
        fn write(&mut self) -> u32 {
            self.writer
                .execute("INSERT INTO t (body) VALUES (zeroblob(3500))", [])
                .unwrap();
            let pages = self.checkpoints.pages.load(Ordering::Relaxed);
            self.checkpoints.run_if_due(&self.writer);
            pages
        }

        /// Writes until the log has started over, and returns how long it became.
        fn write_until_restart(&mut self) -> u32 {
            let mut longest = 0;
            loop {
                let pages = self.write();
                if pages < longest {
                    return longest;
                }
                longest = pages;
            }
        }
    }

    fn count(connection: &Connection) -> u32 {
        connection
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn log_starts_over_when_it_is_long_enough() {
        let mut database = Database::new();
        for _ in 0..2 {
            let longest = database.write_until_restart();
            assert!(
                (CHECKPOINT_AT..CHECKPOINT_AT + 8).contains(&longest),
                "{longest}"
            );
        }
    }

    #[test]
    fn old_snapshot_delays_the_restart_and_stays_readable() {
        let mut database = Database::new();
        let reader = database.reader();
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), 0);
        while database.write() < CHECKPOINT_AT + 2 * RETRY_AFTER {}
        assert_eq!(count(&reader), 0);
        reader.execute_batch("COMMIT").unwrap();
        database.write_until_restart();
        let written = count(&database.writer);
        assert!(written > CHECKPOINT_AT / 3);
        assert_eq!(count(&reader), written);
    }
}
