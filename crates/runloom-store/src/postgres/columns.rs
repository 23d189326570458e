//! How the port's types are written into columns and read back.

use std::borrow::Cow;
use std::error::Error;

use runloom_ports::store::Millis;
use runloom_protocol::approval::ApprovalStatus;
use runloom_protocol::id::{ApprovalId, RunId, SessionId};
use runloom_protocol::policy::Approver;
use runloom_protocol::resource::{RunStatus, SessionStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::error::Failure;
pub(super) use crate::sql::escape as text;
use crate::sql::unescape;

/// A value as JSON text.
pub(super) fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(value)?)
}

/// Text that may be missing, as a column can hold it.
pub(super) fn maybe_text(maybe: Option<&String>) -> Option<Cow<'_, str>> {
    maybe.map(|it| text(it))
}

/// Text as it was before [`text`].
pub(super) struct Text(pub(super) String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(unescape(<&str>::from_sql(ty, raw)?)))
    }

    fn accepts(ty: &Type) -> bool {
        <&str>::accepts(ty)
    }
}

/// A value kept as JSON text.
pub(super) struct Json<T>(pub(super) T);

impl<'a, T: DeserializeOwned> FromSql<'a> for Json<T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(serde_json::from_str(<&str>::from_sql(ty, raw)?)?))
    }

    fn accepts(ty: &Type) -> bool {
        <&str>::accepts(ty)
    }
}

/// A value kept as one word or id.
pub(super) struct Word<T>(pub(super) T);

macro_rules! words {
    ($($kind:ident: $parse:expr,)*) => {$(
        impl<'a> FromSql<'a> for Word<$kind> {
            fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                let text = <&str>::from_sql(ty, raw)?;
                let parsed: Option<$kind> = $parse(text);
                parsed.map(Self).ok_or_else(|| {
                    format!("{text:?} is not a {}", stringify!($kind)).into()
                })
            }

            fn accepts(ty: &Type) -> bool {
                <&str>::accepts(ty)
            }
        }
    )*};
}

words!(
    RunStatus: RunStatus::parse,
    SessionStatus: SessionStatus::parse,
    RunId: RunId::parse,
    SessionId: SessionId::parse,
    ApprovalId: ApprovalId::parse,
    ApprovalStatus: ApprovalStatus::parse,
    Approver: Approver::parse,
);

/// Text of a column.
pub(super) fn get_text(row: &Row, column: &str) -> Result<String, Failure> {
    Ok(row.try_get::<_, Text>(column)?.0)
}

/// Text of a column that may be empty.
pub(super) fn get_maybe_text(row: &Row, column: &str) -> Result<Option<String>, Failure> {
    Ok(row.try_get::<_, Option<Text>>(column)?.map(|it| it.0))
}

/// A word of a column.
pub(super) fn get_word<T>(row: &Row, column: &str) -> Result<T, Failure>
where
    for<'a> Word<T>: FromSql<'a>,
{
    Ok(row.try_get::<_, Word<T>>(column)?.0)
}

/// JSON of a column.
pub(super) fn get_json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, Failure> {
    Ok(row.try_get::<_, Json<T>>(column)?.0)
}

/// JSON of a column that may be empty.
pub(super) fn get_maybe_json<T: DeserializeOwned>(
    row: &Row,
    column: &str,
) -> Result<Option<T>, Failure> {
    Ok(row.try_get::<_, Option<Json<T>>>(column)?.map(|it| it.0))
}

/// A time.
pub(super) fn get_time(row: &Row, column: &str) -> Result<Millis, Failure> {
    Ok(Millis(row.try_get(column)?))
}

/// A time that may be missing.
pub(super) fn get_maybe_time(row: &Row, column: &str) -> Result<Option<Millis>, Failure> {
    Ok(row.try_get::<_, Option<i64>>(column)?.map(Millis))
}

/// A number of the port that is kept as a larger one.
pub(super) fn get_count(row: &Row, column: &str) -> Result<u32, Failure> {
    Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}
