//! SQLite: one file, one process, one writer with group commit and a few read-only connections.
//!
//! `database` opens the connection that writes: `files` and `lock` know the files beside the database, `wal` verifies
//! a log that a crash left, `integrity` runs SQLite's checks (`check` for `runloom doctor`), `redo` converts
//! databases of the former version, `schema` migrates. `writer` takes jobs from its queue, `transaction` executes
//! them in groups, `checkpoint` copies the log into the database file, `readers` read. `log`, `runs`, `sessions`,
//! `retention`, `ledger` and `approvals` implement one trait of the port each; `claim`, `commit`, `create`, `mail`,
//! `tree` and `filter` are their larger parts. `statements` executes those of [`crate::tables`].

mod approvals;
mod check;
mod checkpoint;
mod claim;
mod columns;
mod commit;
mod create;
mod database;
mod error;
mod files;
mod filter;
mod integrity;
mod leases;
mod ledger;
mod lock;
mod log;
mod loss;
mod mail;
mod project;
mod readers;
mod redo;
mod retention;
mod runs;
mod schema;
mod sessions;
mod statements;
mod threads;
mod transaction;
mod tree;
mod wal;
mod writer;

use std::path::Path;
use std::sync::Arc;

use runloom_ports::store::StoreResult;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub(crate) use self::check::check;
use self::database::Database;
use self::files::DatabaseFiles;
use self::leases::Workers;
use self::readers::Readers;
pub(crate) use self::statements::SqliteStatements;
use self::writer::Writer;
use crate::{DataLoss, Migrated, Migrations, OpenError, OpenOptions};

/// The first SQLite without the race in which resetting the write-ahead log corrupts a database.
const OLDEST_SQLITE: i32 = 3_051_003;

/// A store in one SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    // Dropped in this order: SQLite removes the write-ahead log when the connection that writes is the last to close.
    readers: Readers,
    pub(crate) writer: Writer,
    workers: Arc<Workers>,
}

impl SqliteStore {
    /// Opens the database; creates or migrates it when that is allowed.
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self, OpenError> {
        let files = DatabaseFiles::at(path);
        let (mut database, _) = Database::open(&files, DataLoss::Refuse)?;
        match options.migrations {
            Migrations::Apply => {
                schema::migrate(database.connection_mut())?;
            }
            Migrations::Refuse => {
                let found = schema::version(database.connection())?;
                if found < schema::newest() {
                    return Err(OpenError::MigrationsPending {
                        found,
                        needed: schema::newest(),
                    });
                }
            }
        }
        // The lock shows that no other process is there, so the holders of all leases are dead. Epochs stay: the next
        // claim raises them.
        database
            .connection()
            .execute("UPDATE runs SET worker = NULL WHERE worker IS NOT NULL", [])
            .map_err(|source| failed("voiding the leases of former processes", source))?;
        let workers = Arc::new(Workers::new(
            options.worker_silence_ms.unwrap_or(leases::SILENCE_MS),
        ));
        let writer =
            Writer::start(database, Arc::clone(&workers)).map_err(|source| OpenError::File {
                doing: "starting the writer thread for",
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            readers: Readers::new(files.database().to_owned(), options.readers),
            writer,
            workers,
        })
    }

    /// Runs `work` with a connection that sees every write that was answered before.
    pub(crate) async fn read<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.readers.read(work).await
    }
}

/// Migrates the database to the newest schema.
pub(crate) fn migrate(path: &Path, data_loss: DataLoss) -> Result<Migrated, OpenError> {
    let (mut database, losses) = Database::open(&DatabaseFiles::at(path), data_loss)?;
    let from = schema::migrate(database.connection_mut())?;
    Ok(Migrated {
        from,
        to: schema::newest(),
        lost: losses.into_accepted(),
    })
}

/// Keeps the plan of a statement whatever values are bound. Otherwise SQLite compiles statements that use a partial
/// index anew each time.
fn steady_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn refuse_old_library() -> Result<(), OpenError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(OpenError::OldSqlite {
            found: rusqlite::version(),
        });
    }
    Ok(())
}

fn failed(doing: &'static str, source: rusqlite::Error) -> OpenError {
    OpenError::Database {
        doing,
        source: Box::new(source),
    }
}

/// A number of the port as SQLite stores it. Numbers above `i64::MAX` do not occur.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of SQLite as the port uses it.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
