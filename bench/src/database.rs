//! A PostgreSQL database of its own for a server, created empty and dropped with its handle.
//!
//! `RUNLOOM_TEST_POSTGRES` is the URL of the PostgreSQL server; without it the local one on the usual port is used.

use std::process::Command;

use anyhow::Context;

const DEFAULT_URL: &str = "postgres://postgres@127.0.0.1:5432/postgres";

/// An existing database.
#[derive(Debug)]
pub(crate) struct Database {
    name: String,
    /// The URL for the server under test.
    pub(crate) url: String,
}

impl Database {
    /// Creates an empty database; one of the same name is dropped first.
    pub(crate) fn create(server: &str) -> anyhow::Result<Self> {
        let name = format!("runloom_bench_{}", server.replace('-', "_"));
        let url = with_database(&server_url(), &name)?;
        drop_database(&name)?;
        psql(&format!(
            "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"
        ))?;
        Ok(Self { name, url })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A database that remains is dropped by the next benchmark.
        drop_database(&self.name).ok();
    }
}

fn server_url() -> String {
    std::env::var("RUNLOOM_TEST_POSTGRES").unwrap_or_else(|_| DEFAULT_URL.to_owned())
}

/// The URL with another database.
fn with_database(url: &str, name: &str) -> anyhow::Result<String> {
    let (address, _) = url
        .rsplit_once('/')
        .filter(|(address, _)| !address.ends_with('/'))
        .context("RUNLOOM_TEST_POSTGRES must have the form postgres://user@host:port/database")?;
    Ok(format!("{address}/{name}"))
}

fn drop_database(name: &str) -> anyhow::Result<()> {
    psql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
}

fn psql(sql: &str) -> anyhow::Result<()> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--command", sql, &server_url()])
        .output()
        .context("cannot start psql, which is part of PostgreSQL's client package")?;
    anyhow::ensure!(
        output.status.success(),
        "PostgreSQL refused {sql:?} (RUNLOOM_TEST_POSTGRES is its URL): {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_URL, with_database};

    #[test]
    fn replaces_the_database_of_a_url() {
        let url = with_database(DEFAULT_URL, "bench").unwrap();
        assert_eq!(url, "postgres://postgres@127.0.0.1:5432/bench");
        for invalid in ["postgres", "postgres://host"] {
            assert!(with_database(invalid, "bench").is_err(), "{invalid}");
        }
    }
}
