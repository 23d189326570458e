//! The record of a group while its jobs run.

use std::collections::HashMap;

use runloom_ports::store::StoreErrorKind;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

use super::super::error::Reason;
use super::{BLOCK, HEADER, MAGIC};

/// Set in a statement's number when its text follows.
pub(super) const TEXT_FOLLOWS: u16 = 1 << 15;

pub(super) const NULL: u8 = 0;
pub(super) const INTEGER: u8 = 1;
pub(super) const REAL: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const BLOB: u8 = 4;

/// The statements of one group, as they are executed: number of the text (and the text when it is the first time), values, rows
/// that changed.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Draft {
    /// Begins with room for the header.
    bytes: Vec<u8>,
    /// Texts that stand in earlier records since the database was last committed.
    texts: HashMap<Box<str>, u16>,
    /// The group changed something.
    changed: bool,
    /// Bytes at most.
    room: usize,
    too_large: bool,
    /// A statement was begun and not executed yet.
    under_way: bool,
    /// One was not executed at all.
    broken_off: bool,
}

impl Draft {
    /// A new group begins. Its record will not have more than `room` bytes.
    pub(in crate::sqlite) fn begin(&mut self, room: usize) {
        self.bytes.clear();
        self.bytes.resize(HEADER, 0);
        self.changed = false;
        self.too_large = false;
        self.under_way = false;
        self.broken_off = false;
        self.room = room;
    }

    /// What comes next is not read together with what came before.
    pub(in crate::sqlite) fn forget_texts(&mut self) {
        self.texts.clear();
    }

    /// True when the group changed something.
    pub(in crate::sqlite) fn changed(&self) -> bool {
        self.changed
    }

    /// True when the statements are more than there is room for. They are not kept.
    pub(in crate::sqlite) fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Refuses a draft of which not everything is known: a job went on after one of its statements had failed.
    pub(in crate::sqlite) fn check(&self) -> Result<(), Reason> {
        if self.broken_off || self.under_way {
            return Err(Reason {
                kind: StoreErrorKind::Broken,
                text: "a job went on after a statement that failed".to_owned(),
            });
        }
        Ok(())
    }

    /// A statement begins.
    pub(in crate::sqlite) fn statement(&mut self, sql: &str, values: usize) {
        self.broken_off |= std::mem::replace(&mut self.under_way, true);
        let next = u16::try_from(self.texts.len()).unwrap_or(TEXT_FOLLOWS);
        match self.texts.get(sql) {
            Some(number) => self.bytes.extend(number.to_le_bytes()),
            None if next < TEXT_FOLLOWS => {
                self.texts.insert(sql.into(), next);
                self.bytes.extend((next | TEXT_FOLLOWS).to_le_bytes());
                self.sized(sql.as_bytes());
            }
            None => self.too_large = true,
        }
        match u8::try_from(values) {
            Ok(values) => self.bytes.push(values),
            Err(_) => self.too_large = true,
        }
    }

    /// Its next value.
    pub(in crate::sqlite) fn value(&mut self, value: &ToSqlOutput<'_>) {
        let value = match value {
            ToSqlOutput::Borrowed(value) => *value,
            ToSqlOutput::Owned(Value::Null) => ValueRef::Null,
            ToSqlOutput::Owned(value) => value.into(),
            // None of these is used. A group with one is committed at once.
            _ => {
                self.too_large = true;
                return;
            }
        };
        match value {
            ValueRef::Null => self.bytes.push(NULL),
            ValueRef::Integer(number) => {
                self.bytes.push(INTEGER);
                self.bytes.extend(number.to_le_bytes());
            }
            ValueRef::Real(number) => {
                self.bytes.push(REAL);
                self.bytes.extend(number.to_le_bytes());
            }
            ValueRef::Text(text) => {
                self.bytes.push(TEXT);
                self.sized(text);
            }
            ValueRef::Blob(bytes) => {
                self.bytes.push(BLOB);
                self.sized(bytes);
            }
        }
    }

    /// The statement was executed and changed so many rows.
    pub(in crate::sqlite) fn executed(&mut self, rows: usize) {
        self.under_way = false;
        self.changed |= rows > 0;
        self.bytes.extend((rows as u64).to_le_bytes());
        if self.too_large || self.bytes.len() > self.room {
            self.too_large = true;
            self.bytes.truncate(HEADER);
        }
    }

    fn sized(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > self.room {
            self.too_large = true;
            return;
        }
        self.bytes.extend((bytes.len() as u64).to_le_bytes());
        self.bytes.extend(bytes);
    }

    /// The whole record, in whole blocks.
    pub(super) fn seal(&mut self, lineage: u64, number: u64) -> &[u8] {
        let length = self.bytes.len() - HEADER;
        let header = [lineage, number, length as u64].map(u64::to_le_bytes);
        self.bytes[8..HEADER].copy_from_slice(header.as_flattened());
        let checksum = crc32fast::hash(&self.bytes[8..]);
        self.bytes[..4].copy_from_slice(&MAGIC);
        self.bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        &self.bytes
    }
}
