//! Verification of a write-ahead log that was left by a process that did not stop cleanly.
//!
//! SQLite recovers the log up to the first frame whose checksum is wrong, and ignores the rest without an error: it
//! cannot tell a damaged log from one whose last transaction was not completely written. Here every transaction but
//! the last is known to be synced before the next one began (`synchronous=FULL`), so that more than one transaction
//! after the first bad frame shows damage. The index of the log (`-shm`) shows as well how many frames were
//! committed; it is written after the sync. The formats are documented in <https://sqlite.org/walformat.html>.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use super::files::DatabaseFiles;
use super::loss::Losses;
use crate::OpenError;

const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const INDEX_HEADER: usize = 48;

/// Of a log whose checksums are made of little-endian words. The other byte order has the next number.
const MAGIC: u32 = 0x377f_0682;

const VERSION: u32 = 3_007_000;

/// Reports what of the log is lost, and keeps a copy of a damaged log when the loss is accepted. Must run before
/// SQLite opens the database.
pub(super) fn check(files: &DatabaseFiles, losses: &mut Losses) -> Result<(), OpenError> {
    let path = files.wal();
    let state = examine(&path, &files.shm()).map_err(|source| OpenError::File {
        doing: "reading",
        path: path.clone(),
        source,
    })?;
    let (problem, lost) = match state {
        WalState::Intact => return Ok(()),
        WalState::Incomplete => {
            tracing::warn!(
                log = %path.display(),
                "the last transaction of the write-ahead log is incomplete and ignored; it was not acknowledged"
            );
            return Ok(());
        }
        WalState::Missing => (
            "is missing or empty although the server did not stop cleanly".to_owned(),
            "all writes acknowledged since the last checkpoint, unless another SQLite program has copied them into the database or the database was restored".to_owned(),
        ),
        WalState::Damaged(damage) => (
            format!("is damaged after frame {}", damage.intact_frames),
            format!("at least {} acknowledged transactions", damage.lost_transactions),
        ),
        WalState::Unreadable => (
            "is damaged: its header is not valid".to_owned(),
            "all writes acknowledged since the last checkpoint".to_owned(),
        ),
    };
    losses.report(OpenError::DataLoss {
        file: path.clone(),
        problem,
        lost,
    })?;
    files.copy_aside(&path)
}

/// What is known of a log.
#[derive(Debug, PartialEq, Eq)]
enum WalState {
    /// There is no log, or an empty one.
    Missing,
    /// The header is damaged.
    Unreadable,
    /// All transactions can be recovered.
    Intact,
    /// The last transaction was not completely written and cannot be recovered; no caller was told that it is durable.
    Incomplete,
    /// Acknowledged transactions cannot be recovered.
    Damaged(Damage),
}

#[derive(Debug, PartialEq, Eq)]
struct Damage {
    /// Frames that can be recovered.
    intact_frames: u32,
    lost_transactions: u32,
}

fn examine(wal: &Path, index: &Path) -> io::Result<WalState> {
    let mut log = match File::open(wal) {
        Ok(file) => BufReader::with_capacity(1 << 18, file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(WalState::Missing),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; WAL_HEADER];
    if !fill(&mut log, &mut bytes)? {
        return Ok(WalState::Missing);
    }
    let Some(header) = Header::parse(&bytes) else {
        return Ok(WalState::Unreadable);
    };
    let frames = Frames::read(&mut log, &header)?;
    let committed = committed_frames(index, header.salts)?.unwrap_or(0);
    let lost_transactions = match frames.unreachable_commits {
        commits if committed > frames.recoverable => commits.max(1),
        commits => commits,
    };
    Ok(if committed > frames.recoverable || lost_transactions > 1 {
        WalState::Damaged(Damage {
            intact_frames: frames.recoverable,
            lost_transactions,
        })
    } else if lost_transactions == 1 {
        WalState::Incomplete
    } else {
        WalState::Intact
    })
}

/// Returns false when the file ends before the buffer is full.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The header of a log.
struct Header {
    words: WordOrder,
    page_size: usize,
    /// Frames of this generation of the log have the same.
    salts: [u8; 8],
    checksum: Checksum,
}

impl Header {
    fn parse(bytes: &[u8; WAL_HEADER]) -> Option<Self> {
        let words = match word(bytes, 0)? {
            MAGIC => WordOrder::Little,
            magic if magic == MAGIC + 1 => WordOrder::Big,
            _ => return None,
        };
        let checksum = Checksum::default().of(bytes.get(..24)?, words);
        let page_size = match word(bytes, 8)? {
            1 => 65_536,
            size => usize::try_from(size).ok()?,
        };
        let valid = word(bytes, 4)? == VERSION
            && page_size.is_power_of_two()
            && (512..=65_536).contains(&page_size)
            && checksum.matches(bytes.get(24..)?);
        valid.then_some(Self {
            words,
            page_size,
            salts: salts(bytes.get(16..)?)?,
            checksum,
        })
    }
}

/// What is in the frames of a log.
struct Frames {
    /// Frames up to the last commit that can be recovered.
    recoverable: u32,
    /// Commits of this generation of the log from the first bad frame on.
    unreachable_commits: u32,
}

impl Frames {
    fn read(log: &mut impl Read, header: &Header) -> io::Result<Self> {
        let mut found = Self {
            recoverable: 0,
            unreachable_commits: 0,
        };
        let mut frame = vec![0; FRAME_HEADER + header.page_size];
        let mut checksum = Some(header.checksum);
        let mut number = 0;
        while fill(log, &mut frame)? {
            number += 1;
            let commits = word(&frame, 4).is_some_and(|size| size != 0);
            let same_generation = salts(&frame[8..]) == Some(header.salts);
            checksum = checksum
                .filter(|_| same_generation && word(&frame, 0) != Some(0))
                .map(|checksum| checksum.of(&frame[..8], header.words))
                .map(|checksum| checksum.of(&frame[FRAME_HEADER..], header.words))
                .filter(|checksum| checksum.matches(&frame[16..FRAME_HEADER]));
            match checksum {
                Some(_) if commits => found.recoverable = number,
                None if commits && same_generation => found.unreachable_commits += 1,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// How many frames were committed according to the index of the log. `None` when the index is absent, of another
/// generation of the log, or not valid.
fn committed_frames(index: &Path, generation: [u8; 8]) -> io::Result<Option<u32>> {
    let mut copies = [0; 2 * INDEX_HEADER];
    let mut file = match File::open(index) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !fill(&mut file, &mut copies)? {
        return Ok(None);
    }
    let (header, copy) = copies.split_at(INDEX_HEADER);
    let native = |offset: usize| -> Option<u32> {
        let bytes = header.get(offset..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let checksum = Checksum::default().of(&header[..40], WordOrder::NATIVE);
    let valid = header == copy
        && native(0) == Some(VERSION)
        && native(40) == Some(checksum.0)
        && native(44) == Some(checksum.1)
        && salts(&header[32..]) == Some(generation);
    Ok(native(16).filter(|_| valid))
}

fn salts(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.first_chunk().copied()
}

/// A number of a header of the log; they are big-endian.
fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Byte order of the words that a checksum is made of.
#[derive(Debug, Clone, Copy)]
enum WordOrder {
    Little,
    Big,
}

impl WordOrder {
    const NATIVE: Self = if cfg!(target_endian = "little") {
        Self::Little
    } else {
        Self::Big
    };
}

/// The running checksum of a log.
#[derive(Debug, Clone, Copy, Default)]
struct Checksum(u32, u32);

impl Checksum {
    fn of(self, bytes: &[u8], order: WordOrder) -> Self {
        let Self(mut first, mut second) = self;
        let word = |bytes: [u8; 4]| match order {
            WordOrder::Little => u32::from_le_bytes(bytes),
            WordOrder::Big => u32::from_be_bytes(bytes),
        };
        for pair in bytes.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            first = first.wrapping_add(word([a, b, c, d])).wrapping_add(second);
            second = second.wrapping_add(word([e, f, g, h])).wrapping_add(first);
        }
        Self(first, second)
    }

    fn matches(self, stored: &[u8]) -> bool {
        word(stored, 0) == Some(self.0) && word(stored, 4) == Some(self.1)
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
