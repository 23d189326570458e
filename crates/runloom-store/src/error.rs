//! Why a store does not open.

use std::path::PathBuf;

use crate::options::SideFile;

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no known kind of database. Its scheme is told, the rest may hold a password.
    #[error(
        "unknown kind of store {scheme:?}: the store's URL starts with `sqlite:` (for example sqlite:.runloom/runloom.db) or `postgres:` (for example postgres://user:password@host/database)"
    )]
    UnknownScheme {
        /// What stood before the colon.
        scheme: String,
    },
    /// The URL has the right scheme and a wrong rest.
    #[error("the store's URL is not right: {problem}")]
    BadUrl {
        /// What is wrong, and what would be right. Never the URL itself, which may hold a password.
        problem: String,
    },
    /// The server could lose what it acknowledged.
    #[error("PostgreSQL has {setting} = {value}: {remedy}")]
    Unsafe {
        /// The setting.
        setting: String,
        /// Its value.
        value: String,
        /// Why that is not good enough, and how it is put right.
        remedy: &'static str,
    },
    /// `sqlite:` without a file.
    #[error(
        "the store's URL names no file: write sqlite:PATH (for example sqlite:.runloom/runloom.db)"
    )]
    NoPath,
    /// Another process works on the database.
    #[error(
        "{} is in use by another Runloom process (it holds {}): stop it, or give this one another store",
        database.display(), lock.display()
    )]
    InUse {
        /// The database.
        database: PathBuf,
        /// The lock file that it holds.
        lock: PathBuf,
    },
    /// There is no such database.
    #[error("there is no database at {}: `runloom migrate` or a first start makes one", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// There is no database, but side files of one.
    #[error(
        "the database {} is missing or empty, but files of one are beside it ({}): put the database or a backup of it there; to start with a new database, move these files away",
        database.display(), names(side_files)
    )]
    Orphaned {
        /// Where the database should be.
        database: PathBuf,
        /// The files beside it.
        side_files: Vec<SideFile>,
    },
    /// A side file is missing or damaged, and acknowledged writes with it.
    #[error(
        "{} {problem}. Lost: {lost}. Put the file back or restore a backup; to go on without these writes, run `runloom migrate --accept-data-loss`",
        file.display()
    )]
    DataLoss {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What is lost.
        lost: String,
    },
    /// SQLite found damaged pages.
    #[error(
        "the database {} is damaged ({}): restore a backup, or save what is readable with `sqlite3 {} .recover`",
        database.display(), problems.join("; "), database.display()
    )]
    Damaged {
        /// The database.
        database: PathBuf,
        /// What SQLite complains about.
        problems: Vec<String>,
    },
    /// The database was written by a newer program.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}: start the newer Runloom that wrote it, or restore a backup from before"
    )]
    TooNew {
        /// Version of the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// The database is older and this opening may not change it.
    #[error(
        "the database has schema version {found}, this program needs {needed}: run `runloom migrate`"
    )]
    MigrationsPending {
        /// Version of the database.
        found: u32,
        /// Version this program needs.
        needed: u32,
    },
    /// The SQLite library is too old to be trusted.
    #[error(
        "SQLite {found} can corrupt a database that several connections use: 3.51.3 or newer is needed"
    )]
    OldSqlite {
        /// Version of the library.
        found: &'static str,
    },
    /// A file could not be made, opened or locked.
    #[error("{doing} {} failed", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database said no.
    #[error("{doing} failed")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// What the database said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The program is stopping.
    #[error("opening the store was interrupted")]
    Stopped(#[source] tokio::task::JoinError),
}

fn names(files: &[SideFile]) -> String {
    let names: Vec<_> = files
        .iter()
        .filter_map(|file| file.path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    names.join(", ")
}
