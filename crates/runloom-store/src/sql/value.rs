//! Values that are bound to statements and read from rows.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use runloom_ports::store::{Millis, WorkspaceNo};
use rusqlite::types::{
    FromSql as FromSqlite, FromSqlResult, ToSql as ToSqlite, ToSqlOutput, ValueRef,
};
use serde::Serialize;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::row::Malformed;

/// Precedes the characters that PostgreSQL's text cannot hold, and itself.
const ESCAPE: char = '\u{1a}';

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
}

/// Builds the values of a statement, in the order of its placeholders.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::sql::Value::from($value)),*] };
}
pub(crate) use values;

/// A value as JSON text.
pub(crate) fn json(value: &impl Serialize) -> Result<Value, Malformed> {
    serde_json::to_string(value)
        .map(Value::Text)
        .map_err(|error| Malformed::new("a value", error))
}

/// A count or a version as columns hold it. None comes near the end of `i64`.
pub(crate) fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<&[u8; 32]> for Value {
    fn from(value: &[u8; 32]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

impl From<Millis> for Value {
    fn from(value: Millis) -> Self {
        Self::Int(value.0)
    }
}

impl From<WorkspaceNo> for Value {
    fn from(value: WorkspaceNo) -> Self {
        Self::Int(value.0)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSqlite for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Bool(yes) => ValueRef::Integer(i64::from(*yes)),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl FromSqlite for Value {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Text(_) => Self::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
            ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType),
        })
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql_checked(ty, out),
            Self::Bool(yes) => yes.to_sql_checked(ty, out),
            Self::Text(text) => escape(text).to_sql_checked(ty, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::BOOL | Type::BYTEA) || <&str as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            _ => Self::Text(unescape(<&str as FromSql>::from_sql(ty, raw)?)),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::BOOL | Type::BYTEA)
            || <&str as FromSql>::accepts(ty)
    }
}

/// Text as PostgreSQL can hold it: it has no NUL, models and clients do.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Text as it was before [`escape`].
pub(crate) fn unescape(stored: &str) -> String {
    if !stored.contains(ESCAPE) {
        return stored.to_owned();
    }
    let mut plain = String::with_capacity(stored.len());
    let mut letters = stored.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            ESCAPE if letters.next() == Some('0') => '\0',
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn restores_text_that_postgres_cannot_hold() {
        for odd in ["", "plain", "\0", "a\0b\u{1a}c", "\u{1a}0", "\u{1a}\0\0é"] {
            let stored = escape(odd);
            assert!(!stored.contains('\0'));
            assert_eq!(unescape(&stored), odd);
        }
    }
}
