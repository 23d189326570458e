//! How much of what files hold is kept in memory: what came packed counts as what it is unpacked.

use runloom_protocol::attachment::Attachment;

use super::is_read;

/// The most XML of a request's documents, all together, in bytes.
const MAX_XML_BYTES: usize = 32 * 1024 * 1024;

/// What is left for the files of a request that are read.
#[derive(Debug)]
pub(super) struct Room {
    /// In bytes, for what is read out of them.
    pub(super) text: usize,
    xml: usize,
    most: usize,
}

impl Room {
    /// Of so many bytes for all files, the others have theirs.
    pub(super) fn beside(files: &[Attachment], most: usize) -> Self {
        let others = files.iter().filter(|file| {
            let kind = file.media_type();
            !kind.is_some_and(|kind| is_read(&kind))
        });
        let taken: u64 = others.filter_map(|file| file.size).sum();
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        Self {
            text: most.saturating_sub(taken),
            xml: MAX_XML_BYTES,
            most,
        }
    }

    /// All that a document may be unpacked to. What it does not need is given back; one that needs more leaves nothing for the next.
    pub(super) fn take_xml(&mut self) -> usize {
        std::mem::take(&mut self.xml)
    }

    pub(super) fn give_back_xml(&mut self, bytes: usize) {
        self.xml = bytes;
    }

    /// Keeps so many bytes of text.
    pub(super) fn take_text(&mut self, bytes: usize) -> Result<(), String> {
        self.text = self
            .text
            .checked_sub(bytes)
            .ok_or_else(|| self.exceeded())?;
        Ok(())
    }

    /// What is said of a file for which there is no room.
    pub(super) fn exceeded(&self) -> String {
        format!(
            "holds too much: all files together may be {} bytes, with the text of documents unpacked",
            self.most
        )
    }
}
