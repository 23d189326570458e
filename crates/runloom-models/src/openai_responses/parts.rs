//! Parts of a user message with files.

use std::borrow::Cow;

use runloom_ports::file::{File, FileContent, FileSupport};
use runloom_protocol::attachment::PDF;
use serde::Serialize;

use crate::files::{Address, Media, named};

/// Media types that OpenAI accepts. The Responses API has no audio.
pub(super) const OPENAI: FileSupport = FileSupport {
    inline: &IMAGES_AND_PDF,
    urls: &IMAGES_AND_PDF,
};

/// Media types that Azure accepts. It does not fetch documents.
pub(super) const AZURE: FileSupport = FileSupport {
    inline: &IMAGES_AND_PDF,
    urls: &runloom_protocol::attachment::IMAGES,
};

const IMAGES_AND_PDF: [&str; 5] = ["image/jpeg", "image/png", "image/webp", "image/gif", PDF];

/// A part of a message with files.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image {
        detail: &'static str,
        image_url: Address<'a>,
    },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<Address<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
}

/// The text, then each file. Files of a type that is not supported are described in words.
pub(super) fn of<'a>(text: &'a str, files: &'a [File]) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(2 * files.len() + 1);
    if !text.trim().is_empty() {
        parts.push(Part::Text { text: text.into() });
    }
    for file in files {
        match (Media::of(file), &file.content) {
            (Media::Image, _) => {
                let text = named(file).into();
                parts.push(Part::Text { text });
                parts.push(Part::Image {
                    detail: "auto",
                    image_url: Address(file),
                });
            }
            (Media::Pdf, FileContent::Url(url)) => parts.push(Part::File {
                filename: None,
                file_data: None,
                file_url: Some(url),
            }),
            (Media::Pdf, _) => parts.push(Part::File {
                filename: Some(&file.name),
                file_data: Some(Address(file)),
                file_url: None,
            }),
            (Media::Audio | Media::Text, _) => {
                let text = file.in_words().into();
                parts.push(Part::Text { text });
            }
        }
    }
    parts
}
