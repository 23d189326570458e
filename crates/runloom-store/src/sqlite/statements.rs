//! Statements of shared tables on a SQLite connection.

use std::sync::Arc;

use rusqlite::{Connection, params_from_iter};

use crate::sql::{Dialect, Malformed, Row, Statements, Value, for_sqlite};

/// Executes statements on the calling thread. Its futures never wait.
pub(crate) struct SqliteStatements<'a>(pub(crate) &'a Connection);

impl Statements for SqliteStatements<'_> {
    type Error = rusqlite::Error;

    const DIALECT: Dialect = Dialect::Sqlite;

    async fn query(&self, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.0.prepare_cached(&for_sqlite(sql))?;
        let columns: Arc<[String]> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map(params_from_iter(values), |row| {
            let values = (0..columns.len())
                .map(|place| row.get(place))
                .collect::<rusqlite::Result<_>>()?;
            Ok(Row::new(Arc::clone(&columns), values))
        })?;
        rows.collect()
    }

    async fn execute(&self, sql: &str, values: &[Value]) -> rusqlite::Result<u64> {
        let changed = self
            .0
            .prepare_cached(&for_sqlite(sql))?
            .execute(params_from_iter(values))?;
        Ok(changed as u64)
    }
}

impl From<Malformed> for rusqlite::Error {
    fn from(error: Malformed) -> Self {
        Self::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    }
}
