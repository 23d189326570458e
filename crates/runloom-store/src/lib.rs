//! The store port on real databases: one folder per database.
//!
//! [`open`] turns a URL into a store; nothing else in the tree knows which database is behind it. Not here: any decision about
//! runs. The rules each database keeps are in `runloom_ports::store`, and `tests/it` checks them for every one.
//!
//! Reading order: `sqlite/writer` (one thread, group commit), `sqlite/transaction`, `sqlite/readers`, then one file per trait of
//! the port; `postgres/` has the same structure, with a connection pool in place of the readers.

mod error;
pub mod postgres;
mod sqlite;

use std::path::PathBuf;
use std::sync::Arc;

use runloom_ports::store::Store;

pub use error::OpenError;

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// What to do with a database of an older version.
    pub migrations: Migrations,
    /// SQLite: connections that read at the same time.
    pub readers: usize,
    /// PostgreSQL: connections at most, besides the writer's own.
    pub connections: usize,
    /// Milliseconds without a heartbeat after which others may claim a worker's runs; `None`: what suits the database.
    pub worker_silence_ms: Option<i64>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            migrations: Migrations::Apply,
            readers: 4,
            connections: 16,
            worker_silence_ms: None,
        }
    }
}

/// What to do with a database of an older version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrations {
    /// Bring it up to date.
    Apply,
    /// Refuse it with [`OpenError::MigrationsPending`].
    Refuse,
}

/// What to do when acknowledged writes are lost, because a side file of the database is missing or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLoss {
    /// Refuse the database with [`OpenError::DataLoss`] and change nothing.
    Refuse,
    /// Go on with what is left. Damaged files are kept under another name.
    Accept,
}

/// What [`migrate`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Version before.
    pub from: u32,
    /// Version now.
    pub to: u32,
    /// Writes that are lost, one line for each cause. Empty unless [`DataLoss::Accept`] was given.
    pub lost: Vec<String>,
}

/// A file beside a SQLite database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The database and its version, for people.
    pub engine: String,
    /// Version of the schema that is there; 0 = none.
    pub version: u32,
    /// Version of the schema that this program writes.
    pub expected: u32,
    /// Names of the migrations that are missing.
    pub pending: Vec<String>,
    /// What is wrong with the database. Empty when it is sound.
    pub problems: Vec<String>,
    /// What is worth knowing and is no problem.
    pub notes: Vec<String>,
    /// SQLite: the files beside the database.
    pub side_files: Vec<SideFile>,
}

impl Health {
    /// True when a server can work with it as it is.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.is_empty() && self.version >= self.expected
    }
}

/// Opens the store that `url` names: `sqlite:PATH` or `postgres://…`.
///
/// # Errors
/// See [`OpenError`].
pub async fn open(url: &str, options: OpenOptions) -> Result<Arc<dyn Store>, OpenError> {
    match Backend::of(url)? {
        Backend::Sqlite(path) => {
            let store = off_thread(move || sqlite::SqliteStore::open(&path, options)).await?;
            Ok(Arc::new(store))
        }
        Backend::Postgres => Ok(Arc::new(postgres::PostgresStore::open(url, options).await?)),
    }
}

/// Migrates the database to the newest schema; creates it when it is absent.
///
/// # Errors
/// See [`OpenError`].
pub async fn migrate(url: &str, data_loss: DataLoss) -> Result<Migrated, OpenError> {
    match Backend::of(url)? {
        Backend::Sqlite(path) => off_thread(move || sqlite::migrate(&path, data_loss)).await,
        Backend::Postgres => postgres::migrate(url).await,
    }
}

/// Looks whether the database is whole and up to date, changing nothing. A server may be running on it.
///
/// # Errors
/// See [`OpenError`].
pub async fn check(url: &str) -> Result<Health, OpenError> {
    match Backend::of(url)? {
        Backend::Sqlite(path) => off_thread(move || sqlite::check(&path)).await,
        Backend::Postgres => postgres::check(url).await,
    }
}

/// Looks whether `url` can name a database, without going there. [`open`] refuses what this refuses.
///
/// # Errors
/// [`OpenError::UnknownScheme`], [`OpenError::NoPath`] or [`OpenError::BadUrl`], none of which repeats the URL.
pub fn check_url(url: &str) -> Result<(), OpenError> {
    match Backend::of(url)? {
        Backend::Sqlite(_) => Ok(()),
        Backend::Postgres => postgres::check_url(url),
    }
}

/// The one place that maps a URL's scheme to a database.
enum Backend {
    Sqlite(PathBuf),
    Postgres,
}

impl Backend {
    fn of(url: &str) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path == ":memory:" {
                    return Err(OpenError::NoPath);
                }
                Ok(Self::Sqlite(path.into()))
            }
            "postgres" | "postgresql" => Ok(Self::Postgres),
            _ => Err(OpenError::UnknownScheme {
                scheme: scheme.to_owned(),
            }),
        }
    }
}

/// Opening reads and writes files, perhaps for long (migrations): not on an async thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(OpenError::Stopped(error)),
    }
}
