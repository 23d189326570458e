//! Files as content blocks.

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_ports::model::ModelError;
use runloom_protocol::attachment::PDF;

use super::wire::{Block, Source};
use crate::files::{Media, named};
use crate::request_body::Items;

/// Media types that Anthropic accepts.
pub(crate) const ANTHROPIC: FileSupport = FileSupport {
    inline: &IMAGES_AND_PDF,
    urls: &IMAGES_AND_PDF,
};

/// Media types that Bedrock accepts. It fetches no URLs.
pub(crate) const BEDROCK: FileSupport = FileSupport {
    inline: &IMAGES_AND_PDF,
    urls: &[],
};

const IMAGES_AND_PDF: [&str; 5] = ["image/jpeg", "image/png", "image/webp", "image/gif", PDF];

/// Writes the blocks of a file.
pub(super) fn blocks(file: &File, blocks: &mut Items<'_>) -> Result<(), ModelError> {
    let source = match &file.content {
        FileContent::Text(text) if !text.trim().is_empty() => Source::Text {
            media_type: "text/plain",
            data: text,
        },
        FileContent::Text(_) => return description(file, blocks),
        FileContent::Base64(data) => Source::Base64 {
            media_type: &file.mime_type,
            data,
        },
        FileContent::Url(url) => Source::Url { url },
    };
    match (Media::of(file), &file.content) {
        (Media::Image, _) => {
            blocks.push(&Block::Text { text: &named(file) })?;
            blocks.push(&Block::Image { source })
        }
        (Media::Pdf, _) | (_, FileContent::Text(_)) => blocks.push(&Block::Document {
            source,
            title: &file.name,
        }),
        _ => description(file, blocks),
    }
}

fn description(file: &File, blocks: &mut Items<'_>) -> Result<(), ModelError> {
    blocks.push(&Block::Text {
        text: &file.in_words(),
    })
}
