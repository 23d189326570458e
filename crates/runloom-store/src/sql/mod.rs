//! Statements that both databases execute: one text, one set of values, one kind of row.
//!
//! Statements are written for PostgreSQL. [`dialect::for_sqlite`] rewrites what SQLite spells differently:
//! placeholders, casts and row locks, which SQLite does not need because one thread writes.

mod dialect;
mod row;
mod value;

pub(crate) use dialect::{Dialect, for_sqlite};
pub(crate) use row::{Malformed, Row};
pub(crate) use value::{Value, escape, json, number, unescape, values};

/// Executes statements, inside a transaction or on a connection that only reads.
pub(crate) trait Statements {
    /// The error of the database, or of a value that cannot be read.
    type Error: From<Malformed>;

    /// The dialect of the database, for the few statements that have no common form.
    const DIALECT: Dialect;

    /// Returns all rows of a statement.
    async fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Self::Error>;

    /// Executes a statement and returns how many rows it changed.
    async fn execute(&self, sql: &str, values: &[Value]) -> Result<u64, Self::Error>;

    /// Returns the first row of a statement.
    async fn first(&self, sql: &str, values: &[Value]) -> Result<Option<Row>, Self::Error> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }
}
