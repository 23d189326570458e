//! What the demo model says of files: it is told everything and looks at nothing.

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_ports::model::Message;
use runloom_protocol::attachment::PDF;

/// How much of a text is quoted, in characters.
const MAX_QUOTE: usize = 100;

/// It takes every file that may be sent, and fetches nothing: the server does.
pub(super) const TAKEN: FileSupport = FileSupport {
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

/// All files of a conversation.
pub(super) fn list(messages: &[&Message]) -> String {
    let lines: Vec<String> = messages.iter().flat_map(|message| lines(message)).collect();
    if lines.is_empty() {
        return "I was given no files.".to_owned();
    }
    lines.join("\n")
}

/// What was given with a message: names, types and sizes, and how texts begin.
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
