//! Blocks that are on the disk when the call that writes them returns.
//!
//! Where the system allows it they go there directly, past its cache, which nobody needs: about a sixth less time and a fifth less CPU than to
//! write them into the cache and to sync it (decision 0019).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::BLOCK;

/// A file of blocks.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    file: File,
    /// The same file by way of the system's cache.
    reading: File,
    /// The file is opened so that a write is durable by itself, and what is written must lie at a block's boundary in memory, too.
    direct: bool,
    buffer: Vec<u8>,
}

impl Disk {
    /// Opens the file, which is made when it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, direct) = match open(path, true) {
            Ok(file) => (file, cfg!(target_os = "linux")),
            // A file system that has nothing but its cache.
            Err(error) if cannot(&error) => (open(path, false)?, false),
            Err(error) => return Err(error),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            reading: File::open(path)?,
            direct,
            buffer: Vec::new(),
        })
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Writes whole blocks at a block's boundary.
    pub(super) fn write(&mut self, offset: u64, blocks: &[u8]) -> io::Result<()> {
        if self.direct {
            match self.write_directly(offset, blocks) {
                // Some file systems tell only now that they cannot.
                Err(error) if cannot(&error) => {
                    self.file = open(&self.path, false)?;
                    self.direct = false;
                    self.buffer = Vec::new();
                }
                outcome => return outcome,
            }
        }
        write_at(&self.file, offset, blocks)?;
        self.file.sync_data()
    }

    fn write_directly(&mut self, offset: u64, blocks: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(blocks.len() + BLOCK);
        let skipped = self.buffer.as_ptr().align_offset(BLOCK);
        self.buffer.resize(skipped, 0);
        self.buffer.extend_from_slice(blocks);
        write_at(&self.file, offset, &self.buffer[skipped..])
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Reads the first `most` bytes.
    pub(super) fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        read(&self.reading, most)
    }
}

/// Reads the first `most` bytes of a file.
pub(super) fn read(mut file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// True when it is the way of writing that is refused.
pub(super) fn cannot(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Unsupported
    )
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

fn open(path: &Path, direct: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // It holds what the database holds.
        options.mode(0o600);
        #[cfg(target_os = "linux")]
        if direct {
            options.custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = direct;
    options.open(path)
}
