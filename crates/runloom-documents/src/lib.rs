//! Text of documents. Anybody may send a document, so reading is bounded in bytes, entries and nesting.

mod docx;

pub use docx::docx_text;

/// How much of a document is unpacked and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentLimits {
    /// Bytes of the unpacked main part.
    pub unpacked_bytes: usize,
    /// Bytes of the text.
    pub text_bytes: usize,
}

/// A document that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// The text: a line per paragraph, tabs between the cells of a table.
    pub text: String,
    /// Bytes that were unpacked for it.
    pub unpacked_bytes: usize,
}

/// Why a document cannot be read. The message completes the sentence "the file …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The archive has no Word document.
    #[error("is not a Word document (.docx)")]
    NotADocument,
    /// The archive is damaged, or packed in an unsupported way.
    #[error("is not a Word document that can be unpacked: {0}")]
    Damaged(String),
    /// The unpacked main part is over the limit.
    #[error("is too large a Word document: more than {limit} bytes when it is unpacked")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The main part is not UTF-8.
    #[error("is not a Word document in UTF-8")]
    NotUtf8,
    /// The text is over the limit.
    #[error("holds too much text")]
    TextTooLong,
}
