//! Executing records again.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::draft::{BLOB, INTEGER, NULL, REAL, TEXT, TEXT_FOLLOWS};

/// Why the statements of the redo file cannot be executed on the database.
#[derive(Debug, thiserror::Error)]
pub(in crate::sqlite) enum Misfit {
    /// The checksum is right and the content is not.
    #[error("a record of the redo file cannot be read")]
    Malformed,
    /// The same statement did something else.
    #[error("a statement changed {found} rows where it had changed {expected}: {sql}")]
    Differs {
        sql: String,
        expected: u64,
        found: u64,
    },
    /// The database refused.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// Executes the statements of the records in their order, inside the transaction that is open. The first record must be the first
/// after a commit of the database.
pub(in crate::sqlite) fn replay(
    connection: &Connection,
    records: &[Vec<u8>],
) -> Result<(), Misfit> {
    let mut texts: HashMap<u16, &str> = HashMap::new();
    for record in records {
        let mut rest = Rest(record);
        while !rest.0.is_empty() {
            statement(connection, &mut rest, &mut texts)?;
        }
    }
    Ok(())
}

fn statement<'a>(
    connection: &Connection,
    rest: &mut Rest<'a>,
    texts: &mut HashMap<u16, &'a str>,
) -> Result<(), Misfit> {
    let number = u16::from_le_bytes(rest.array()?);
    let key = number & !TEXT_FOLLOWS;
    if number & TEXT_FOLLOWS != 0 {
        let text = std::str::from_utf8(rest.sized()?).map_err(|_| Misfit::Malformed)?;
        texts.insert(key, text);
    }
    let sql = *texts.get(&key).ok_or(Misfit::Malformed)?;
    let mut statement = connection.prepare_cached(sql)?;
    let [values] = rest.array()?;
    for index in 1..=usize::from(values) {
        let value = rest.value()?;
        statement.raw_bind_parameter(index, ToSqlOutput::Borrowed(value))?;
    }
    let expected = u64::from_le_bytes(rest.array()?);
    let found = statement.raw_execute()? as u64;
    if found == expected {
        Ok(())
    } else {
        Err(Misfit::Differs {
            sql: sql.to_owned(),
            expected,
            found,
        })
    }
}

/// What is left of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Misfit::Malformed)?;
        self.0 = rest;
        Ok(*front)
    }

    fn sized(&mut self) -> Result<&'a [u8], Misfit> {
        let length = u64::from_le_bytes(self.array()?);
        let length = usize::try_from(length).map_err(|_| Misfit::Malformed)?;
        let (front, rest) = self.0.split_at_checked(length).ok_or(Misfit::Malformed)?;
        self.0 = rest;
        Ok(front)
    }

    fn value(&mut self) -> Result<ValueRef<'a>, Misfit> {
        let [kind] = self.array()?;
        Ok(match kind {
            NULL => ValueRef::Null,
            INTEGER => ValueRef::Integer(i64::from_le_bytes(self.array()?)),
            REAL => ValueRef::Real(f64::from_le_bytes(self.array()?)),
            TEXT => ValueRef::Text(self.sized()?),
            BLOB => ValueRef::Blob(self.sized()?),
            _ => return Err(Misfit::Malformed),
        })
    }
}
