//! Content of user messages: text, or parts if there are files.

use std::borrow::Cow;

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_protocol::attachment::PDF;
use serde::Serialize;

use crate::files::{Address, Media, named};

/// Media types that xAI accepts.
pub(super) const XAI: FileSupport = FileSupport {
    inline: &["image/jpeg", "image/png"],
    urls: &["image/jpeg", "image/png"],
};

/// Media types that the API has parts for. A server or model that does not support one rejects the request, and the run
/// fails with its message.
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
    // Such a server is often in a private network, where clients must not make it fetch URLs.
    urls: &[],
};

/// The content of a user message. Text without files stays a string, because some servers accept nothing else.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

/// A part of a message with files.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Url<'a> },
    File { file: Document<'a> },
    InputAudio { input_audio: Audio<'a> },
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
pub(super) struct Audio<'a> {
    data: &'a str,
    format: &'static str,
}

/// The text, then each file. Files of a type that is not supported are described in words.
pub(super) fn of<'a>(supported: FileSupport, text: &'a str, files: &'a [File]) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(2 * files.len() + 1);
    if !text.trim().is_empty() {
        parts.push(Part::Text { text: text.into() });
    }
    for file in files {
        let is_supported = supported.takes(&file.mime_type);
        match (Media::of(file), &file.content) {
            (Media::Image, _) if is_supported => {
                parts.push(Part::Text {
                    text: named(file).into(),
                });
                parts.push(Part::ImageUrl {
                    image_url: Url { url: Address(file) },
                });
            }
            (Media::Pdf, FileContent::Base64(_)) if is_supported => parts.push(Part::File {
                file: Document {
                    filename: &file.name,
                    file_data: Address(file),
                },
            }),
            (Media::Audio, FileContent::Base64(data)) if is_supported => {
                parts.push(Part::Text {
                    text: named(file).into(),
                });
                let format = match &*file.mime_type {
                    "audio/wav" => "wav",
                    _ => "mp3",
                };
                parts.push(Part::InputAudio {
                    input_audio: Audio { data, format },
                });
            }
            _ => parts.push(Part::Text {
                text: file.in_words().into(),
            }),
        }
    }
    parts
}
