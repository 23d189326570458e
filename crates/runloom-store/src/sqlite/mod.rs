//! SQLite: one file, one process, one writer with group commit and a few read-only connections.
//!
//! `writer` takes jobs from its queue, `transaction` executes them in groups, `checkpoint` copies the write-ahead log into the
//! database file, `readers` read. `schema` migrates and `lock` keeps other processes away. `log`, `runs`, `sessions`,
//! `retention`, `tenancy`, `registry`, `ledger`, `memories`, `people` and `oauth` implement one trait of the port each; `claim`,
//! `commit`, `create`, `mail`, `filter` and `seals` are their larger parts.

mod checkpoint;
mod claim;
mod columns;
mod commit;
mod create;
mod error;
mod feedback;
mod filter;
mod leases;
mod ledger;
mod lock;
mod log;
mod mail;
mod memories;
mod oauth;
mod people;
mod readers;
mod registry;
mod retention;
mod runs;
mod schema;
mod seals;
mod sessions;
mod tenancy;
mod transaction;
mod writer;

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use runloom_ports::store::StoreResult;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use self::leases::Workers;
use self::lock::DatabaseLock;
use self::readers::Readers;
use self::writer::Writer;
use crate::{Health, Migrated, Migrations, OpenError, OpenOptions};

/// The first SQLite without the race in which resetting the write-ahead log corrupts a database.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Links in a row that are followed to the database.
const LINKS: usize = 16;

/// A store in one SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    // Dropped in this order: the writer finishes, the readers close, the lock goes last.
    writer: Writer,
    readers: Readers,
    workers: Arc<Workers>,
    _lock: DatabaseLock,
}

impl SqliteStore {
    /// Opens the database, making or migrating it when that is allowed.
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self, OpenError> {
        let path = &followed(path);
        let lock = DatabaseLock::take(path)?;
        let mut connection = connect(path)?;
        match options.migrations {
            Migrations::Apply => {
                schema::migrate(&mut connection)?;
            }
            Migrations::Refuse => {
                let found = schema::version(&connection)?;
                if found < schema::newest() {
                    return Err(OpenError::MigrationsPending {
                        found,
                        needed: schema::newest(),
                    });
                }
            }
        }
        // The lock says that no other process is there, so whoever held a run is dead. Epochs stay: the next claim raises them.
        connection
            .execute("UPDATE runs SET worker = NULL WHERE worker IS NOT NULL", [])
            .map_err(|source| failed("taking back the leases of former processes", source))?;
        let workers = Arc::new(Workers::new(
            options.worker_silence_ms.unwrap_or(leases::SILENCE_MS),
        ));
        let writer =
            Writer::start(connection, Arc::clone(&workers)).map_err(|source| OpenError::File {
                doing: "starting the writer thread for",
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            writer,
            readers: Readers::new(path.to_owned(), options.readers),
            workers,
            _lock: lock,
        })
    }

    /// Runs `work` with a connection that sees everything that was answered before.
    async fn read<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.readers.read(work).await
    }
}

/// Brings the file up to date.
pub(crate) fn migrate(path: &Path) -> Result<Migrated, OpenError> {
    let path = &followed(path);
    let _lock = DatabaseLock::take(path)?;
    let mut connection = connect(path)?;
    let from = schema::migrate(&mut connection)?;
    Ok(Migrated {
        from,
        to: schema::newest(),
    })
}

/// Looks at the file without changing it.
pub(crate) fn check(path: &Path) -> Result<Health, OpenError> {
    refuse_old_library()?;
    if !path.exists() {
        return Err(OpenError::Missing {
            path: path.to_owned(),
        });
    }
    let connection =
        readers::connect(path).map_err(|source| failed("opening the database", source))?;
    let version = schema::version(&connection)?;
    let complaints = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    let mut problems =
        complaints().map_err(|source| failed("checking the database's integrity", source))?;
    problems.retain(|line| line != "ok");
    Ok(Health {
        engine: format!("SQLite {}", rusqlite::version()),
        version,
        expected: schema::newest(),
        pending: schema::pending(version),
        problems,
    })
}

/// Opens the connection that writes.
fn connect(path: &Path) -> Result<Connection, OpenError> {
    refuse_old_library()?;
    create_private(path)?;
    let connection =
        Connection::open(path).map_err(|source| failed("opening the database", source))?;
    prepare(&connection).map_err(|source| failed("setting up the database", source))?;
    Ok(connection)
}

/// Where the file itself is: SQLite follows links and puts its log beside that.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = std::fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Makes the file when it is not there, for its owner only: it holds what was said. SQLite gives the files beside it the same mode.
fn create_private(path: &Path) -> Result<(), OpenError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            #[cfg(unix)]
            close_to_others(path);
            Ok(())
        }
        Err(source) => Err(OpenError::File {
            doing: "making the database",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Takes from everybody else what a copy that was put back, for example, let them read. What the group may is somebody's choice.
#[cfg(unix)]
fn close_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for beside in ["", "-wal", "-shm"] {
        let mut path = path.as_os_str().to_owned();
        path.push(beside);
        let Ok(found) = std::fs::metadata(&path) else {
            continue;
        };
        let mut permissions = found.permissions();
        if permissions.mode() & 0o007 == 0 {
            continue;
        }
        permissions.set_mode(permissions.mode() & 0o770);
        let closed = std::fs::set_permissions(&path, permissions);
        let path = Path::new(&path).display();
        match closed {
            Ok(()) => {
                tracing::warn!(%path, "every user of the machine could reach this file; now none can")
            }
            Err(error) => {
                tracing::warn!(%path, %error, "every user of the machine can reach this file")
            }
        }
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(128);
    connection.busy_timeout(Duration::from_secs(5))?;
    steady_plans(connection)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // FULL: in WAL mode a commit with NORMAL does not survive a power cut. No mmap: a read error would kill the process with a
    // signal instead of being returned.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA journal_size_limit = 67108864;",
    )
}

/// A statement keeps its plan whatever is bound to it. Otherwise those that a partial index serves are compiled anew each time.
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

/// A number of the port as SQLite keeps it. None comes near the end of `i64`.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of SQLite as the port has it.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
