//! The redo file: what was promised and does not yet stand in the database.
//!
//! SQLite makes a commit durable by writing every page that it touched, in two writes each: some twenty writes for a few hundred bytes
//! of news. Here a group of jobs is durable when the statements that it executed stand in this file, which is one write and one
//! sync. The transaction in which they were executed stays open; it is committed later, with those of many groups and without a sync
//! of its own (`keeper`). After a crash the statements that the database has lost are executed again.
//!
//! A record is a group. Records are numbered without gaps and begin at the boundary of a block, so that what was promised is never
//! written again. The database remembers the last number that it holds. The file has two halves, which are filled in turns: a half is begun
//! again when the database holds all that stands in it durably, for which there is time while the other one is filled.

mod disk;
mod draft;
mod replay;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use self::disk::Disk;
pub(super) use self::draft::Draft;
pub(super) use self::replay::{Misfit, replay};

/// Disks write at least as much at once.
const BLOCK: usize = 4_096;

/// When a half is full SQLite's log is synced: not too often.
const HALF: u64 = 4 << 20;

const SIZE: u64 = 2 * HALF;

/// The file grows by so much: to overwrite is faster than to grow, and most databases never fill it.
const GROWTH: u64 = 256 << 10;

/// Says that a record begins, and of which format.
const MAGIC: [u8; 4] = *b"rlr1";

/// Magic, checksum of what follows, lineage, number, length of the statements.
const HEADER: usize = 4 + 4 + 8 + 8 + 8;

/// The open file.
#[derive(Debug)]
pub(super) struct RedoFile {
    disk: Disk,
    /// Records of another lineage are of another life of the database. It is drawn anew at every start and told to nobody, so nobody can
    /// have a text stored that will pass for a record when the file has started over.
    lineage: u64,
    /// Number of the last record.
    last: u64,
    /// Where the half begins that is being filled.
    half: u64,
    /// Where the next record goes in it.
    end: u64,
    /// Up to here the file has its blocks.
    grown: u64,
    /// A record was written and nobody knows whether it came to the disk.
    torn: bool,
}

impl RedoFile {
    /// Where the redo file of a database is.
    pub(super) fn path_beside(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push("-redo");
        name.into()
    }

    /// Opens the file and forgets what is in it: the first record will have the number 1.
    pub(super) fn start(path: &Path, lineage: u64) -> io::Result<Self> {
        let disk = Disk::open(path)?;
        let grown = disk.len()?.min(SIZE);
        // A file that was made just now must still be there after a power cut.
        #[cfg(unix)]
        sync_folder(path)?;
        Ok(Self {
            disk,
            lineage,
            last: 0,
            half: 0,
            end: 0,
            grown: grown - grown % BLOCK as u64,
            torn: false,
        })
    }

    /// Number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes that are in use of the half.
    pub(super) fn used(&self) -> u64 {
        self.end
    }

    /// Bytes of a record that still fits into the half.
    pub(super) fn room(&self) -> usize {
        usize::try_from(HALF.saturating_sub(self.end)).unwrap_or(0)
    }

    /// Makes the draft durable. When that fails the file must be mended before anything else is promised.
    pub(super) fn append(&mut self, draft: &mut Draft) -> io::Result<()> {
        let record = draft.seal(self.lineage, self.last + 1);
        let start = self.half + self.end;
        let end = start + record.len() as u64;
        if end > self.grown {
            let grown = end.next_multiple_of(GROWTH);
            let blank = vec![0; usize::try_from(grown - self.grown).unwrap_or(0)];
            self.disk.write(self.grown, &blank)?;
            self.grown = grown;
        }
        self.torn = true;
        self.disk.write(start, record)?;
        self.torn = false;
        self.end = end - self.half;
        self.last += 1;
        Ok(())
    }

    /// Sees to it that a record which was refused is not found after a crash.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.disk.write(self.half + self.end, &[0; BLOCK])?;
            self.torn = false;
        }
        Ok(())
    }

    /// Begins the half again after a group that has no record. Only when the database holds it and everything before it durably. The group has a
    /// number all the same: a database without it does not go on with the record after it.
    pub(super) fn start_over(&mut self) {
        self.last += 1;
        self.end = 0;
    }

    /// Begins the other half. Only when the database holds durably what stands there.
    pub(super) fn turn(&mut self) {
        self.half = HALF - self.half;
        self.end = 0;
    }

    /// Nothing will be appended any more, and the database holds everything durably.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.disk.remove()
    }

    /// What was promised after the record `held`.
    pub(super) fn after(&self, held: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut found = records(&self.disk.read(SIZE)?, self.lineage, held)?;
        let promised = usize::try_from(self.last.saturating_sub(held)).unwrap_or(usize::MAX);
        // One that was refused may stand behind them.
        found.truncate(promised);
        if found.len() < promised {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{} of {promised} records are there", found.len()),
            ));
        }
        Ok(found)
    }
}

/// What a former process promised and the database does not hold: the statements of the records after `held`, oldest first.
pub(super) fn left_behind(path: &Path, lineage: u64, held: u64) -> io::Result<Vec<Vec<u8>>> {
    match File::open(path) {
        Ok(file) => records(&disk::read(&file, SIZE)?, lineage, held),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn records(bytes: &[u8], lineage: u64, held: u64) -> io::Result<Vec<Vec<u8>>> {
    let middle = bytes.len().min(usize::try_from(HALF).unwrap_or(usize::MAX));
    let (first, second) = bytes.split_at(middle);
    let mut rows = [row(first, lineage), row(second, lineage)];
    rows.sort_by_key(|row| row.first().map(|(number, _)| *number));
    let mut found = Vec::new();
    let mut next = held.saturating_add(1);
    for (number, statements) in rows.concat() {
        if number > next {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!(
                    "it goes on after step {} and the database ends at step {}: they are not of the same moment; if the database was restored from a backup, remove this file",
                    number - 1,
                    next - 1
                ),
            ));
        }
        if number == next {
            found.push(statements.to_vec());
            next += 1;
        }
    }
    Ok(found)
}

/// The records of a half, up to the first that is not whole or does not follow: it was never promised, or it is of an earlier round.
fn row(mut half: &[u8], lineage: u64) -> Vec<(u64, &[u8])> {
    let mut row: Vec<(u64, &[u8])> = Vec::new();
    while let Some((number, statements, length)) = record(half, lineage) {
        if row.last().is_some_and(|(last, _)| last + 1 != number) {
            break;
        }
        row.push((number, statements));
        half = half.get(length..).unwrap_or_default();
    }
    row
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new(".")))?.sync_all() {
        // Some file systems have no such thing.
        Err(error) if disk::cannot(&error) => Ok(()),
        synced => synced,
    }
}

/// The record at the front: its number, its statements, and how many bytes it takes.
fn record(bytes: &[u8], lineage: u64) -> Option<(u64, &[u8], usize)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, checked) = rest.split_first_chunk::<4>()?;
    let (of, rest) = checked.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    if *magic != MAGIC || u64::from_le_bytes(*of) != lineage {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let statements = rest.get(..length)?;
    let checked = checked.get(..HEADER - 8 + length)?;
    if crc32fast::hash(checked) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let taken = (HEADER + length).next_multiple_of(BLOCK);
    Some((u64::from_le_bytes(*number), statements, taken))
}

#[cfg(test)]
mod tests;
