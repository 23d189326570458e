//! The content of a tool result: text up to a limit, and files.

use runloom_ports::tools::Outcome;
use runloom_protocol::limits::{FILE_NAME_MAX_CHARS, TOOL_FILES_MAX, TOOL_FILES_MAX_BYTES};
use runloom_protocol::spec::ToolFile;
use runloom_protocol::validate::is_attachment_type;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum text of one result in bytes; more would fill any context window.
pub(crate) const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Maximum bytes of an MCP server's error that are passed to the model.
pub(crate) const MAX_MCP_ERROR_BYTES: usize = 500;

/// Maximum text of a failure in bytes.
const MAX_FAILURE_BYTES: usize = 8 * 1024;

/// Collects the text and the files of a result.
#[derive(Debug, Default)]
pub(crate) struct ResultContent {
    text: String,
    omitted_bytes: usize,
    files: Vec<ToolFile>,
    file_bytes: usize,
}

impl ResultContent {
    /// Empty content.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a block of text on a new line.
    pub(crate) fn text(&mut self, block: &str) {
        if block.is_empty() {
            return;
        }
        if !self.text.is_empty() && self.text.len() < MAX_TEXT_BYTES {
            self.text.push('\n');
        }
        let kept = truncate(block, MAX_TEXT_BYTES.saturating_sub(self.text.len()));
        self.text.push_str(kept);
        self.omitted_bytes += block.len() - kept.len();
    }

    /// Adds a file given as base64. A file that models cannot read is replaced by a note in the text.
    pub(crate) fn file(&mut self, name: &str, mime_type: &str, data: &str) {
        let name: String = name.chars().take(FILE_NAME_MAX_CHARS).collect();
        let shown: String = mime_type.chars().take(100).collect();
        let Ok(bytes) = STANDARD.decode(data) else {
            self.text(&format!(
                "[file {name} ({shown}) omitted: its data is not base64]"
            ));
            return;
        };
        if bytes.is_empty() {
            self.text(&format!("[file {name} ({shown}) omitted: it is empty]"));
            return;
        }
        let total = self.file_bytes + bytes.len();
        if self.files.len() >= TOOL_FILES_MAX || total > TOOL_FILES_MAX_BYTES {
            self.text(&format!(
                "[file {name} ({shown}, {} bytes) omitted: a result has at most {TOOL_FILES_MAX} files and {TOOL_FILES_MAX_BYTES} bytes]",
                bytes.len()
            ));
            return;
        }
        if !is_attachment_type(mime_type) {
            self.text(&format!(
                "[file {name} ({shown}, {} bytes) omitted: models cannot read this type]",
                bytes.len()
            ));
            return;
        }
        self.file_bytes = total;
        self.files.push(ToolFile {
            filename: name,
            mime_type: mime_type.to_owned(),
            data: data.to_owned(),
        });
    }

    /// Whether there is neither text nor a file.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.files.is_empty()
    }

    /// The outcome of a successful call.
    pub(crate) fn success(self) -> Outcome {
        Outcome {
            is_error: false,
            ..self.error()
        }
    }

    /// The outcome of a failed call, with the peer's own message.
    pub(crate) fn error(mut self) -> Outcome {
        if self.omitted_bytes > 0 {
            let note = format!(
                "\n[truncated: {} more bytes were omitted; request less at a time]",
                self.omitted_bytes
            );
            self.text.push_str(&note);
        }
        if self.text.is_empty() && !self.files.is_empty() {
            let names: Vec<&str> = self.files.iter().map(|f| f.filename.as_str()).collect();
            self.text = format!("[files: {}]", names.join(", "));
        }
        Outcome {
            content: self.text,
            is_error: true,
            files: self.files,
            report: None,
        }
    }
}

/// The outcome of a failed call, with a message of this server.
pub(crate) fn failure(message: impl AsRef<str>) -> Outcome {
    Outcome {
        content: truncate(message.as_ref(), MAX_FAILURE_BYTES).to_owned(),
        is_error: true,
        ..Outcome::default()
    }
}

/// The longest prefix of at most `limit` bytes that ends at a character boundary.
pub(crate) fn truncate(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_long_text_at_a_character_with_a_note() {
        let mut content = ResultContent::new();
        content.text(&"ä".repeat(MAX_TEXT_BYTES));
        content.text("more");
        let outcome = content.success();
        assert!(outcome.content.len() < MAX_TEXT_BYTES + 200);
        assert!(outcome.content.contains("more bytes were omitted"));
    }

    #[test]
    fn keeps_readable_files_and_notes_the_others() {
        let mut content = ResultContent::new();
        content.text("a picture");
        content.file("a.png", "image/png", "AAAA");
        content.file("b.bin", "application/octet-stream", "AAAA");
        content.file("c.png", "image/png", "not base64!");
        content.file("d.png", "image/png", "");
        let outcome = content.success();
        assert_eq!(outcome.files.len(), 1);
        assert!(outcome.content.contains("b.bin"), "{}", outcome.content);
        assert!(outcome.content.contains("c.png"), "{}", outcome.content);
        assert!(outcome.content.contains("d.png"), "{}", outcome.content);
    }

    #[test]
    fn too_many_bytes_of_files_are_left_out() {
        let big = STANDARD.encode(vec![0_u8; TOOL_FILES_MAX_BYTES - 10]);
        let mut content = ResultContent::new();
        content.file("a.png", "image/png", &big);
        content.file("b.png", "image/png", &STANDARD.encode([0_u8; 100]));
        let outcome = content.success();
        assert_eq!(outcome.files.len(), 1);
        assert!(outcome.content.contains("b.png"), "{}", outcome.content);
    }
}
