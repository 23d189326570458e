//! The lock file: one process per database, and whether the last one stopped cleanly.
//!
//! The leases of former processes are void because no other process can work on the database. The content of the file
//! says whether acknowledged writes may be in the write-ahead log only, so that a missing log is noticed at the next
//! start.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::files::DatabaseFiles;
use crate::OpenError;

/// Same length, so that one write replaces the other.
const RUNNING: &[u8] = b"running\n";
const STOPPED: &[u8] = b"stopped\n";

/// How the last process that used the database stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastStop {
    /// The file does not say: the database is new, restored, or of the former version.
    Unknown,
    /// The database file has everything.
    Clean,
    /// Acknowledged writes may be in the write-ahead log only.
    Unclean,
}

/// Who uses a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// Another process holds the lock.
    InUse,
    Unused(LastStop),
}

/// Holds `<database>.lock` until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct DatabaseLock {
    file: File,
    path: PathBuf,
}

impl DatabaseLock {
    /// Locks the database. Creates its folder and the lock file when they are absent.
    pub(super) fn take(files: &DatabaseFiles) -> Result<Self, OpenError> {
        let parent = files.database().parent();
        if let Some(folder) = parent.filter(|path| !path.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| failed("creating the folder", folder, source))?;
        }
        let path = files.lock();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| failed("opening the lock file", &path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
                database: files.database().to_owned(),
                lock: path,
            }),
            Err(TryLockError::Error(source)) => Err(failed("locking", &path, source)),
        }
    }

    /// Looks who uses the database, without keeping the lock.
    pub(super) fn inspect(files: &DatabaseFiles) -> Result<Usage, OpenError> {
        let path = files.lock();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Usage::Unused(LastStop::Unknown));
            }
            Err(source) => return Err(failed("opening the lock file", &path, source)),
        };
        match file.try_lock_shared() {
            Ok(()) => Self { file, path }.last_stop().map(Usage::Unused),
            Err(TryLockError::WouldBlock) => Ok(Usage::InUse),
            Err(TryLockError::Error(source)) => Err(failed("locking", &path, source)),
        }
    }

    /// How the last process stopped.
    pub(super) fn last_stop(&self) -> Result<LastStop, OpenError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut content = Vec::new();
            let mut file = &self.file;
            file.seek(SeekFrom::Start(0))?;
            file.take(64).read_to_end(&mut content)?;
            Ok(content)
        };
        let content =
            read().map_err(|source| failed("reading the lock file", &self.path, source))?;
        Ok(match content.as_slice() {
            RUNNING => LastStop::Unclean,
            STOPPED => LastStop::Clean,
            _ => LastStop::Unknown,
        })
    }

    /// From now on acknowledged writes may be in the write-ahead log only.
    pub(super) fn mark_running(&self) -> Result<(), OpenError> {
        self.mark(RUNNING)
    }

    /// The database file has everything.
    pub(super) fn mark_stopped(&self) -> Result<(), OpenError> {
        self.mark(STOPPED)
    }

    fn mark(&self, content: &[u8]) -> Result<(), OpenError> {
        let write = || -> io::Result<()> {
            let mut file = &self.file;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(content)?;
            file.set_len(content.len() as u64)?;
            file.sync_all()
        };
        write().map_err(|source| failed("writing the lock file", &self.path, source))
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> OpenError {
    OpenError::File {
        doing,
        path: path.to_owned(),
        source,
    }
}
