//! What a user says, in parts when there are files.

use std::borrow::Cow;

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_protocol::attachment::PDF;
use serde::Serialize;

use crate::files::{Address, Media, named};

/// What xAI takes.
pub(super) const XAI: FileSupport = FileSupport {
    inline: &["image/jpeg", "image/png"],
    urls: &["image/jpeg", "image/png"],
};

/// What the API has parts for. Whether a server, and the model on it, knows them all is for it to say: its refusal ends the run with its words.
pub(super) const COMPATIBLE: FileSupport = FileSupport {
    inline: &[
        "image/jpeg",
        "image/png",
        "image/webp",
        "image/gif",
        PDF,
        "audio/wav",
        "audio/mpeg",
    ],
    // Such a server often stands inside, where it must not be sent by clients.
    urls: &[],
};

/// The content of a user's message. Plain text stays plain: some servers know nothing else.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Said<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

/// One part.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Url<'a> },
    File { file: Document<'a> },
    InputAudio { input_audio: Sound<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct Url<'a> {
    url: Address<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    filename: &'a str,
    file_data: Address<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Sound<'a> {
    data: &'a str,
    format: &'static str,
}

/// The text, then each file.
pub(super) fn of<'a>(taken: FileSupport, text: &'a str, files: &'a [File]) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(2 * files.len() + 1);
    if !text.trim().is_empty() {
        parts.push(Part::Text { text: text.into() });
    }
    for file in files {
        let is_taken = taken.takes(&file.mime_type);
        match (Media::of(file), &file.content) {
            (Media::Image, _) if is_taken => {
                parts.push(Part::Text {
                    text: named(file).into(),
                });
                parts.push(Part::ImageUrl {
                    image_url: Url { url: Address(file) },
                });
            }
            (Media::Pdf, FileContent::Base64(_)) if is_taken => parts.push(Part::File {
                file: Document {
                    filename: &file.name,
                    file_data: Address(file),
                },
            }),
            (Media::Audio, FileContent::Base64(data)) if is_taken => {
                parts.push(Part::Text {
                    text: named(file).into(),
                });
                let format = match &*file.mime_type {
                    "audio/wav" => "wav",
                    _ => "mp3",
                };
                parts.push(Part::InputAudio {
                    input_audio: Sound { data, format },
                });
            }
            _ => parts.push(Part::Text {
                text: file.in_words().into(),
            }),
        }
    }
    parts
}
