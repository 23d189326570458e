//! Opening and closing the connection that writes: side files are checked, the log is recovered, the stop is recorded.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::files::DatabaseFiles;
use super::integrity::{self, Depth, Integrity};
use super::lock::{DatabaseLock, LastStop};
use super::loss::Losses;
use super::{failed, redo, refuse_old_library, schema, steady_plans, wal};
use crate::{DataLoss, OpenError};

/// How long a start after an unclean stop looks for damage at most.
const QUICK_CHECK: Duration = Duration::from_secs(1);

/// The connection that writes, and the lock. Dropping it checkpoints and closes the database.
#[derive(Debug)]
pub(super) struct Database {
    // Dropped in this order: the lock goes last.
    connection: Connection,
    lock: DatabaseLock,
}

impl Database {
    /// Opens the database, or creates it when it is absent. Also returns the losses that were accepted.
    pub(super) fn open(
        files: &DatabaseFiles,
        data_loss: DataLoss,
    ) -> Result<(Self, Losses), OpenError> {
        refuse_old_library()?;
        files.refuse_orphans()?;
        let mut losses = Losses::new(data_loss);
        let lock = DatabaseLock::take(files)?;
        let last_stop = lock.last_stop()?;
        if last_stop == LastStop::Unclean {
            wal::check(files, &mut losses)?;
        }
        files.create_private()?;
        let mut connection =
            connect(files.database()).map_err(|source| cannot_open(files.database(), source))?;
        if last_stop == LastStop::Unclean {
            refuse_damage(&mut connection, files.database())?;
        }
        schema::version(&connection)?;
        redo::convert(&mut connection, files, &mut losses)?;
        start_log(&connection).map_err(|source| failed("writing to the database", source))?;
        lock.mark_running()?;
        Ok((Self { connection, lock }, losses))
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Copies the whole log into the database file, records the clean stop, then empties the log. In this order the
    /// log is never empty while the lock file says "running".
    fn close(&self) -> Result<(), OpenError> {
        let checkpoint = |mode: &str| {
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            self.connection.query_row(&sql, [], |row| {
                let busy: bool = row.get(0)?;
                Ok(!busy && row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
            })
        };
        let complete = checkpoint("FULL").map_err(|source| failed("checkpointing", source))?;
        if complete {
            self.lock.mark_stopped()?;
            // If that fails, only an empty log stays behind.
            let _ = checkpoint("TRUNCATE");
        } else {
            tracing::warn!("a reader keeps the write-ahead log in use; the next start recovers it");
        }
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "database not closed cleanly; the next start recovers it");
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // A start that is refused leaves the files as they are.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(128);
    connection.busy_timeout(Duration::from_secs(5))?;
    steady_plans(&connection)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // FULL: in WAL mode a commit with NORMAL does not survive a power cut. No mmap: a read error would kill the
    // process with a signal instead of being returned.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    Ok(connection)
}

fn cannot_open(path: &Path, source: rusqlite::Error) -> OpenError {
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
            database: path.to_owned(),
            problems: vec![source.to_string()],
        },
        _ => failed("opening the database", source),
    }
}

/// Looks for damage, for example of a checkpoint whose log is missing.
fn refuse_damage(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let integrity = integrity::check(connection, Depth::Quick, QUICK_CHECK)
        .map_err(|source| failed("checking the database for damage", source))?;
    match integrity {
        Integrity::Sound => Ok(()),
        Integrity::Unfinished => {
            tracing::info!(
                "the database is too large to be checked at the start; `runloom doctor` checks it"
            );
            Ok(())
        }
        Integrity::Damaged(problems) => Err(OpenError::Damaged {
            database: path.to_owned(),
            problems,
        }),
    }
}

/// Writes something, so that the log has content and everything recovered from it is synced before it is used.
fn start_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version)
}
