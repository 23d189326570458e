//! How a store is opened, and reports about it.

use std::path::PathBuf;

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
    /// Refuse it with [`crate::OpenError::MigrationsPending`].
    Refuse,
}

/// What to do when acknowledged writes are lost, because a side file of the database is missing or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLoss {
    /// Refuse the database with [`crate::OpenError::DataLoss`] and change nothing.
    Refuse,
    /// Go on with what is left. Damaged files are kept under another name.
    Accept,
}

/// What [`crate::migrate`] did.
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

/// What [`crate::check`] found.
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
