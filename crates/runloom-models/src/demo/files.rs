//! How the demo model describes files: by name, type and size. It does not look into them.

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_ports::model::Message;
use runloom_protocol::attachment::PDF;

/// Longest quotation of a text, in characters.
const MAX_QUOTE: usize = 100;

/// Every media type that may be sent. URLs are fetched by the server.
pub(super) const SUPPORTED: FileSupport = FileSupport {
    inline: &[
        "image/jpeg",
        "image/png",
        "image/webp",
        "image/gif",
        "audio/mp4",
        "audio/mpeg",
        "audio/wav",
        "audio/webm",
        PDF,
    ],
    urls: &[],
};

/// Describes all files of a conversation.
pub(super) fn list(messages: &[&Message]) -> String {
    let lines: Vec<String> = messages.iter().flat_map(|message| lines(message)).collect();
    if lines.is_empty() {
        return "I was given no files.".to_owned();
    }
    lines.join("\n")
}

/// Describes the files of a message: name, type and size, and the beginning of a text.
pub(super) fn lines(message: &Message) -> Vec<String> {
    match message {
        Message::UserFiles { files, .. } => files.iter().map(line).collect(),
        _ => Vec::new(),
    }
}

fn line(file: &File) -> String {
    let label = file.label();
    match &file.content {
        FileContent::Text(text) => {
            let mut quote: String = text.chars().take(MAX_QUOTE).collect();
            if quote.len() < text.len() {
                quote.push('…');
            }
            format!("{label}: {quote}")
        }
        FileContent::Base64(_) | FileContent::Url(_) => label,
    }
}
