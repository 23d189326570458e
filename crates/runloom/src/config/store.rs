//! `[store]`.

use std::path::PathBuf;

use runloom_ports::secret::Secret;

use super::table_reader::Table;

/// `[store]`.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The SQLite database; not used with PostgreSQL.
    pub sqlite: PathBuf,
    /// The address of a PostgreSQL database; it may hold a password.
    pub postgres: Option<Secret>,
}

impl StoreConfig {
    /// The address as the store takes it.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.postgres {
            Some(url) => url.expose().to_owned(),
            None => format!("sqlite:{}", self.sqlite.display()),
        }
    }

    /// The address for display, without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.postgres {
            Some(_) => "postgres (address not shown)".to_owned(),
            None => self.url(),
        }
    }
}

pub(super) fn read(table: &Table<'_>) -> StoreConfig {
    let url = table.text("url");
    let url = url.unwrap_or_else(|| "sqlite:.runloom/runloom.db".to_owned());
    let is_postgres = url.starts_with("postgres:") || url.starts_with("postgresql:");
    let mut sqlite = PathBuf::new();
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.starts_with(':') {
            table.refuse("url", "must name a file: the log must outlive the process");
        }
        sqlite = PathBuf::from(path);
    } else if !is_postgres {
        // The value may hold a password, so it is not repeated.
        table.refuse(
            "url",
            "must be sqlite:PATH, like sqlite:.runloom/runloom.db, or postgres://USER:PASSWORD@HOST/DATABASE",
        );
    } else if let Err(error) = runloom_store::check_url(&url) {
        table.refuse("url", error);
    }
    table.finish();
    StoreConfig {
        sqlite,
        postgres: is_postgres.then(|| Secret::new(url)),
    }
}
