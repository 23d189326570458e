//! The files of one database: the database itself, SQLite's side files, the lock, and the redo file of the former
//! version.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{OpenError, SideFile};

/// Symbolic links that are followed to the database.
const MAX_LINKS: usize = 16;

/// Paths of the files of one database.
#[derive(Debug, Clone)]
pub(super) struct DatabaseFiles {
    database: PathBuf,
}

impl DatabaseFiles {
    /// Follows symbolic links, as SQLite does: side files lie beside the file that a link points to.
    pub(super) fn at(path: &Path) -> Self {
        let mut database = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Ok(target) = fs::read_link(&database) else {
                break;
            };
            database = database.parent().unwrap_or(Path::new("")).join(target);
        }
        Self { database }
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    /// The write-ahead log.
    pub(super) fn wal(&self) -> PathBuf {
        self.beside("-wal")
    }

    /// The index of the write-ahead log, shared by the connections.
    pub(super) fn shm(&self) -> PathBuf {
        self.beside("-shm")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.beside(".lock")
    }

    pub(super) fn redo(&self) -> PathBuf {
        self.beside("-redo")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.database.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// Whether there is a write-ahead log with content.
    pub(super) fn has_wal(&self) -> bool {
        size(&self.wal()).is_some_and(|bytes| bytes > 0)
    }

    /// The files beside the database that exist.
    pub(super) fn side_files(&self) -> Vec<SideFile> {
        [self.wal(), self.shm(), self.redo(), self.lock()]
            .into_iter()
            .filter_map(|path| size(&path).map(|bytes| SideFile { path, bytes }))
            .collect()
    }

    /// Refuses to take an absent or empty database for a new one when files beside it belong to a database. Must run
    /// before the lock file is created.
    pub(super) fn refuse_orphans(&self) -> Result<(), OpenError> {
        let mut side_files = self.side_files();
        match size(&self.database) {
            Some(0) => side_files.retain(|file| file.bytes > 0),
            Some(_) => return Ok(()),
            None => {}
        }
        if side_files.is_empty() {
            return Ok(());
        }
        Err(OpenError::Orphaned {
            database: self.database.clone(),
            side_files,
        })
    }

    /// Creates the database when it is absent, readable by its owner only. SQLite gives its side files the same mode.
    pub(super) fn create_private(&self) -> Result<(), OpenError> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.database) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                #[cfg(unix)]
                self.restrict_permissions();
                Ok(())
            }
            Err(source) => Err(OpenError::File {
                doing: "creating the database",
                path: self.database.clone(),
                source,
            }),
        }
    }

    /// Takes the permissions of "others" away, for example from a restored copy. Those of the group stay.
    #[cfg(unix)]
    fn restrict_permissions(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        for path in [self.database.clone(), self.wal(), self.shm(), self.redo()] {
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            let mut permissions = metadata.permissions();
            if permissions.mode() & 0o007 == 0 {
                continue;
            }
            permissions.set_mode(permissions.mode() & 0o770);
            let restricted = fs::set_permissions(&path, permissions);
            let path = path.display();
            match restricted {
                Ok(()) => {
                    tracing::warn!(%path, "file was accessible to every user; access removed")
                }
                Err(error) => {
                    tracing::warn!(%path, %error, "file is accessible to every user");
                }
            }
        }
    }

    /// Removes a file that is no longer needed.
    pub(super) fn remove(&self, path: &Path) -> Result<(), OpenError> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(OpenError::File {
                doing: "removing",
                path: path.to_owned(),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Renames a damaged file, so that it can still be examined.
    pub(super) fn set_aside(&self, path: &Path) -> Result<(), OpenError> {
        keep(path, |from, to| fs::rename(from, to))
    }

    /// Copies a damaged file that SQLite still reads, so that it can be examined later.
    pub(super) fn copy_aside(&self, path: &Path) -> Result<(), OpenError> {
        keep(path, |from, to| fs::copy(from, to).map(drop))
    }
}

/// Keeps a damaged file under a name with the time. A missing file is no error.
fn keep(path: &Path, keep: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<(), OpenError> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut kept = path.as_os_str().to_owned();
    kept.push(format!(".damaged-{seconds}"));
    match keep(path, Path::new(&kept)) {
        Ok(()) => {
            let kept = Path::new(&kept).display();
            tracing::warn!(file = %kept, "damaged file kept");
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(OpenError::File {
            doing: "keeping a copy of",
            path: path.to_owned(),
            source,
        }),
    }
}

/// `None` when there is no such file.
fn size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
}
