//! The memory limit for contents of files: a packed file counts by its unpacked size.

use runloom_documents::{DocumentError, DocumentLimits};
use runloom_protocol::attachment::Attachment;

use super::is_read;

/// The most XML of a request's documents, all together, in bytes.
const MAX_XML_BYTES: usize = 32 * 1024 * 1024;

/// The remaining budget of a request.
#[derive(Debug)]
pub(super) struct ReadBudget {
    /// Bytes of extracted text.
    pub(super) text: usize,
    xml: usize,
    most: usize,
}

impl ReadBudget {
    /// The budget that remains of `most` bytes after these files.
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

    /// The text of a Word document, read within the budget. One that needs more uses up the budget.
    pub(super) fn read_docx(&mut self, archive: &[u8]) -> Result<String, String> {
        let limits = DocumentLimits {
            unpacked_bytes: std::mem::take(&mut self.xml),
            text_bytes: self.text,
        };
        let document =
            runloom_documents::docx_text(archive, limits).map_err(|error| match error {
                DocumentError::TextTooLong => self.exceeded(),
                error => error.to_string(),
            })?;
        self.xml = limits
            .unpacked_bytes
            .saturating_sub(document.unpacked_bytes);
        Ok(document.text)
    }

    /// Takes bytes of text from the budget.
    pub(super) fn take_text(&mut self, bytes: usize) -> Result<(), String> {
        self.text = self
            .text
            .checked_sub(bytes)
            .ok_or_else(|| self.exceeded())?;
        Ok(())
    }

    /// The message for a file over the budget.
    pub(super) fn exceeded(&self) -> String {
        format!(
            "holds too much: all files together may be {} bytes, with the text of documents unpacked",
            self.most
        )
    }
}
