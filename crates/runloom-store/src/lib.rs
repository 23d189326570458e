//! The store port on real databases: one folder per database.
//!
//! [`open`] turns a URL into a store; nothing else in the tree knows which database is behind it. Not here: any
//! decision about runs. The rules each database keeps are in `runloom_ports::store`, and `tests/it` checks them for
//! every one.
//!
//! Reading order: `sqlite/writer` (one thread, group commit), `sqlite/transaction`, `sqlite/readers`, then the traits
//! of the port on the hot path; `postgres/` has the same structure, with a connection pool in place of the readers.
//! `tables` has the traits whose SQL is written once for both, in the statements of `sql`.

mod error;
mod options;
pub mod postgres;
mod sql;
mod sqlite;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;

use runloom_ports::store::Store;

pub use error::OpenError;
pub use options::{DataLoss, Health, Migrated, Migrations, OpenOptions, SideFile};

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
