//! How the port's types are written into columns and read back.

use runloom_ports::store::Millis;
use runloom_protocol::approval::ApprovalStatus;
use runloom_protocol::id::{ApprovalId, RunId, SessionId};
use runloom_protocol::policy::Approver;
use runloom_protocol::resource::{RunStatus, SessionStatus};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value kept as JSON text.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(text.into())
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// A value kept as one word or id.
pub(super) struct Word<T>(pub(super) T);

macro_rules! words {
    ($($kind:ident),*) => {$(
        impl FromSql for Word<$kind> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let text = value.as_str()?;
                $kind::parse(text).map(Self).ok_or_else(|| {
                    FromSqlError::other(Unknown { kind: stringify!($kind), text: text.to_owned() })
                })
            }
        }
    )*};
}

words!(
    RunStatus,
    SessionStatus,
    RunId,
    SessionId,
    ApprovalId,
    ApprovalStatus,
    Approver
);

/// A stored word that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub(super) struct Unknown {
    pub(super) kind: &'static str,
    pub(super) text: String,
}

/// JSON of a column that may be empty.
pub(super) fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<Json<T>>>(column)?.map(|json| json.0))
}

/// A time that may be missing.
pub(super) fn time(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Millis>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Millis))
}
