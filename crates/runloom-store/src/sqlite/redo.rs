//! Conversion of a database of the former version, which kept acknowledged writes in `<database>-redo`.
//!
//! The former version answered its callers when the statements of a group of jobs were in the redo file, and
//! committed them to SQLite later. At the first start this module executes the statements that the database lacks,
//! commits them and removes the file. Nothing writes the format any more.
//!
//! The file has two halves, which were filled in turns. A record is one group: a header (magic, CRC-32 of what
//! follows, lineage, number, length), then its statements, padded to a block. The table `redo` names the lineage (a
//! random number drawn at each start) and the last record that the database holds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use runloom_ports::store::StoreErrorKind;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, TransactionBehavior};

use super::error::kind_of;
use super::failed;
use super::files::DatabaseFiles;
use super::loss::Losses;
use crate::OpenError;

const BLOCK: usize = 4_096;
const HALF: usize = 4 << 20;
const SIZE: u64 = 2 * HALF as u64;
const MAGIC: [u8; 4] = *b"rlr1";
const HEADER: usize = 4 + 4 + 8 + 8 + 8;

/// Version of the schema from which on a database has no redo file.
const CONVERTED: u32 = 9;

/// Set in the number of a statement when its text follows.
const TEXT_FOLLOWS: u16 = 1 << 15;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// What the database says about its redo file.
#[derive(Debug, Clone, Copy)]
struct Position {
    lineage: u64,
    /// Number of the last record that the database holds.
    held: u64,
}

/// What has to be done with the redo file of a database.
#[derive(Debug)]
pub(super) enum Conversion {
    /// The database never had a redo file, or is converted.
    None,
    /// The database holds everything and is not marked as converted yet, or the file is still there.
    Finish,
    /// The database lacks the writes of these records, oldest first.
    Replay {
        records: Vec<Vec<u8>>,
        /// Why further records are lost.
        damage: Option<String>,
    },
    /// The file is missing although the database needs it.
    Missing,
}

/// Looks at the redo file and changes nothing.
pub(super) fn examine(
    connection: &Connection,
    files: &DatabaseFiles,
) -> Result<Conversion, OpenError> {
    let position =
        position(connection).map_err(|source| failed("reading the table redo", source))?;
    let path = files.redo();
    let bytes = read(&path).map_err(|source| OpenError::File {
        doing: "reading",
        path,
        source,
    })?;
    let Some(bytes) = bytes else {
        return Ok(match position {
            None => Conversion::None,
            Some(position) if position.lineage == 0 => Conversion::None,
            // The former version emptied the write-ahead log before it removed the file: a log with content shows a
            // kill.
            Some(_) if files.has_wal() => Conversion::Missing,
            Some(_) => Conversion::Finish,
        });
    };
    let has_records = |of: &dyn Fn(u64) -> bool| newest_record(&bytes, of).is_some();
    Ok(match position {
        None if version(connection)? < CONVERTED && has_records(&|_| true) => {
            Conversion::without_wal(files)
        }
        None => Conversion::None,
        // The lineage of the records is in the write-ahead log, which is not there.
        Some(Position { lineage, .. })
            if !files.has_wal()
                && has_records(&|_| true)
                && !has_records(&|found| found == lineage) =>
        {
            Conversion::without_wal(files)
        }
        Some(position) if position.lineage == 0 => Conversion::Finish,
        Some(position) => {
            let Found { records, damage } = Found::in_file(&bytes, position);
            Conversion::Replay { records, damage }
        }
    })
}

impl Conversion {
    /// The records cannot be used, because the database lacks what was written before them.
    fn without_wal(files: &DatabaseFiles) -> Self {
        Self::Replay {
            records: Vec::new(),
            damage: Some(format!(
                "cannot be used: {} is missing, or the database is of another moment",
                files.wal().display()
            )),
        }
    }
}

fn version(connection: &Connection) -> Result<u32, OpenError> {
    connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| failed("reading the version of the database", source))
}

/// Brings the database up to date and removes the redo file. Must run before migrations, because the statements are
/// of the schema that the database has.
pub(super) fn convert(
    connection: &mut Connection,
    files: &DatabaseFiles,
    losses: &mut Losses,
) -> Result<(), OpenError> {
    let (records, damage) = match examine(connection, files)? {
        Conversion::None => return Ok(()),
        Conversion::Finish => (Vec::new(), None),
        Conversion::Replay { records, damage } => (records, damage),
        Conversion::Missing => {
            let problem = "is missing although the server was killed".to_owned();
            losses.report(data_loss(files, problem))?;
            (Vec::new(), None)
        }
    };
    let mut damaged = damage.is_some();
    if let Some(problem) = damage {
        losses.report(data_loss(files, problem))?;
    }
    if let Err(error) = replay_and_commit(connection, &records) {
        let error = match error {
            Mismatch::Database(source) if kind_of(&source) == StoreErrorKind::Unavailable => {
                return Err(failed("writing the content of the redo file", source));
            }
            other => other,
        };
        let problem = format!("does not fit the database ({error})");
        losses.report(data_loss(files, problem))?;
        damaged = true;
        replay_and_commit(connection, &[]).map_err(|source| OpenError::Database {
            doing: "discarding the redo file",
            source: Box::new(source),
        })?;
    }
    tracing::info!(
        groups = records.len(),
        "redo file of the former version converted"
    );
    if damaged {
        files.set_aside(&files.redo())
    } else {
        files.remove(&files.redo())
    }
}

fn data_loss(files: &DatabaseFiles, problem: String) -> OpenError {
    OpenError::DataLoss {
        file: files.redo(),
        problem,
        lost: "the writes that the server acknowledged in its last seconds before it was killed"
            .to_owned(),
    }
}

/// Executes the records and marks the database as converted, in one transaction.
fn replay_and_commit(connection: &mut Connection, records: &[Vec<u8>]) -> Result<(), Mismatch> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    replay(&transaction, records)?;
    if position(&transaction)?.is_some() {
        transaction.execute("UPDATE redo SET lineage = 0, held = 0", [])?;
    }
    transaction.commit()?;
    Ok(())
}

/// `None` for a database without the table.
fn position(connection: &Connection) -> rusqlite::Result<Option<Position>> {
    let exists: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'redo')",
        [],
        |row| row.get(0),
    )?;
    if !exists {
        return Ok(None);
    }
    connection.query_row("SELECT lineage, held FROM redo", [], |row| {
        Ok(Some(Position {
            lineage: row.get::<_, i64>(0)?.cast_unsigned(),
            held: row.get::<_, i64>(1)?.cast_unsigned(),
        }))
    })
}

fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(SIZE).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The records that a database lacks.
#[derive(Debug)]
struct Found {
    records: Vec<Vec<u8>>,
    damage: Option<String>,
}

impl Found {
    fn in_file(bytes: &[u8], Position { lineage, held }: Position) -> Self {
        let (first, second) = bytes.split_at(bytes.len().min(HALF));
        let mut halves = [
            intact_records(first, lineage),
            intact_records(second, lineage),
        ];
        halves.sort_by_key(|records| records.first().map(|record| record.number));
        let mut records = Vec::new();
        let mut last = held;
        for record in halves.concat() {
            if record.number == last.saturating_add(1) {
                records.push(record.statements.to_vec());
                last = record.number;
            }
        }
        Self {
            records,
            damage: damage(bytes, lineage, last),
        }
    }
}

/// Says what is wrong when records after `last` are in the file. The record directly after it may be incomplete: it
/// was being written when the server was killed, and nobody was told that it is durable.
fn damage(bytes: &[u8], lineage: u64, last: u64) -> Option<String> {
    let newest = newest_record(bytes, |found| found == lineage)?;
    if newest == last.saturating_add(1) {
        tracing::warn!(
            record = newest,
            "the last record of the redo file is incomplete and ignored; it was not acknowledged"
        );
    }
    (newest > last.saturating_add(1)).then(|| {
        format!(
            "is damaged or of another moment than the database: of its records up to {newest}, those after {last} cannot be used"
        )
    })
}

/// The highest number of a record of these lineages, damaged or not.
fn newest_record(bytes: &[u8], of: impl Fn(u64) -> bool) -> Option<u64> {
    bytes
        .chunks(BLOCK)
        .filter_map(Header::parse)
        .filter(|header| of(header.lineage))
        .map(|header| header.number)
        .max()
}

#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    number: u64,
    statements: &'a [u8],
    /// Bytes that it takes in the file.
    size: usize,
}

struct Header {
    checksum: u32,
    lineage: u64,
    number: u64,
    length: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes.strip_prefix(&MAGIC)?);
        Some(Self {
            checksum: u32::from_le_bytes(rest.array().ok()?),
            lineage: u64::from_le_bytes(rest.array().ok()?),
            number: u64::from_le_bytes(rest.array().ok()?),
            length: u64::from_le_bytes(rest.array().ok()?),
        })
    }
}

/// The records of a half up to the first that is damaged or does not follow the one before it.
fn intact_records(mut half: &[u8], lineage: u64) -> Vec<Record<'_>> {
    let mut records: Vec<Record<'_>> = Vec::new();
    while let Some(record) = intact_record(half, lineage) {
        if records
            .last()
            .is_some_and(|last| last.number + 1 != record.number)
        {
            break;
        }
        records.push(record);
        half = half.get(record.size..).unwrap_or_default();
    }
    records
}

fn intact_record(bytes: &[u8], lineage: u64) -> Option<Record<'_>> {
    let header = Header::parse(bytes).filter(|header| header.lineage == lineage)?;
    let end = HEADER.checked_add(usize::try_from(header.length).ok()?)?;
    let checked = bytes.get(8..end)?;
    if crc32fast::hash(checked) != header.checksum {
        return None;
    }
    Some(Record {
        number: header.number,
        statements: bytes.get(HEADER..end)?,
        size: end.next_multiple_of(BLOCK),
    })
}

/// Why the statements of the redo file cannot be executed on the database.
#[derive(Debug, thiserror::Error)]
enum Mismatch {
    /// The checksum is right and the content is not.
    #[error("a record cannot be read")]
    Malformed,
    /// The statement did something else than in the former process.
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

/// Executes the statements of the records in their order, inside the open transaction.
fn replay(connection: &Connection, records: &[Vec<u8>]) -> Result<(), Mismatch> {
    let mut texts: HashMap<u16, &str> = HashMap::new();
    for record in records {
        let mut rest = Rest(record);
        while !rest.0.is_empty() {
            replay_statement(connection, &mut rest, &mut texts)?;
        }
    }
    Ok(())
}

fn replay_statement<'a>(
    connection: &Connection,
    rest: &mut Rest<'a>,
    texts: &mut HashMap<u16, &'a str>,
) -> Result<(), Mismatch> {
    let number = u16::from_le_bytes(rest.array()?);
    let key = number & !TEXT_FOLLOWS;
    if number & TEXT_FOLLOWS != 0 {
        let text = std::str::from_utf8(rest.sized()?).map_err(|_| Mismatch::Malformed)?;
        texts.insert(key, text);
    }
    let sql = *texts.get(&key).ok_or(Mismatch::Malformed)?;
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
        Err(Mismatch::Differs {
            sql: sql.to_owned(),
            expected,
            found,
        })
    }
}

/// The unread part of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Mismatch> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Mismatch::Malformed)?;
        self.0 = rest;
        Ok(*front)
    }

    fn sized(&mut self) -> Result<&'a [u8], Mismatch> {
        let length = u64::from_le_bytes(self.array()?);
        let length = usize::try_from(length).map_err(|_| Mismatch::Malformed)?;
        let (front, rest) = self.0.split_at_checked(length).ok_or(Mismatch::Malformed)?;
        self.0 = rest;
        Ok(front)
    }

    fn value(&mut self) -> Result<ValueRef<'a>, Mismatch> {
        let [kind] = self.array()?;
        Ok(match kind {
            NULL => ValueRef::Null,
            INTEGER => ValueRef::Integer(i64::from_le_bytes(self.array()?)),
            REAL => ValueRef::Real(f64::from_le_bytes(self.array()?)),
            TEXT => ValueRef::Text(self.sized()?),
            BLOB => ValueRef::Blob(self.sized()?),
            _ => return Err(Mismatch::Malformed),
        })
    }
}

#[cfg(test)]
#[path = "redo_tests.rs"]
mod tests;
