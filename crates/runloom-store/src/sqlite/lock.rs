//! One process per database: leases of former processes are void exactly because nobody else can be there.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// Holds `<database>.lock` until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    /// Locks the database, making its folder when it is not there.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        if let Some(folder) = database
            .parent()
            .filter(|path| !path.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|source| OpenError::File {
                doing: "making the folder",
                path: folder.to_owned(),
                source,
            })?;
        }
        let path = lock_path(database);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| OpenError::File {
                doing: "opening the lock file",
                path: path.clone(),
                source,
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
                database: database.to_owned(),
                lock: path,
            }),
            Err(TryLockError::Error(source)) => Err(OpenError::File {
                doing: "locking",
                path,
                source,
            }),
        }
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
