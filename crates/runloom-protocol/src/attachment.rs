//! Files beside what a user says: as a client sends them, as a run keeps them, and as everybody may see them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Images that models are given.
pub const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/webp", "image/gif"];
/// Sound that models are given.
pub const AUDIO: [&str; 4] = ["audio/mp4", "audio/mpeg", "audio/wav", "audio/webm"];
/// The type of PDF files.
pub const PDF: &str = "application/pdf";
/// The type of Word's files.
pub const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// A file of a message: `input_file` with `filename`, `mimeType` and `data`, or `input_file_url` with `url`. At most 20
/// files and 5 MB (decoded) per message. Responses do not contain the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Whether the request contains the file or its URL.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// The `https` URL of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The media type: audio (mp4, mpeg, wav, webm), image (jpeg, png, webp, gif), PDF, DOCX, `text/*`, JSON or XML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The size in bytes, when it is known. Only in responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The content in standard base64. Only in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<FileData>,
    /// The text that the server extracted from the file; replaces `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub text: Option<FileData>,
}

/// Whether a request contains a file or its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    /// The file itself.
    InputFile,
    /// Its `https` URL.
    InputFileUrl,
}

impl Attachment {
    /// A file that is sent with the request; `data` is base64.
    #[must_use]
    pub fn inline(
        filename: impl Into<String>,
        mime_type: impl Into<String>,
        data: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            kind: AttachmentKind::InputFile,
            url: None,
            mime_type: Some(mime_type.into()),
            filename: Some(filename.into()),
            size: None,
            data: Some(FileData(data.into())),
            text: None,
        }
    }

    /// A file that lies at an `https` address.
    #[must_use]
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            kind: AttachmentKind::InputFileUrl,
            url: Some(url.into()),
            mime_type: None,
            filename: None,
            size: None,
            data: None,
            text: None,
        }
    }

    /// The same without the bytes: what everybody may see.
    #[must_use]
    pub fn info(&self) -> Self {
        Self {
            data: None,
            text: None,
            ..self.clone()
        }
    }

    /// Its name; of an address without one the end of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        let of_url = || {
            let (_, rest) = self.url.as_deref()?.split_once("://")?;
            let (_, path) = rest.split(['?', '#']).next()?.split_once('/')?;
            path.rsplit('/').find(|part| !part.is_empty())
        };
        let given = self.filename.as_deref().filter(|name| !name.is_empty());
        given.or_else(of_url).unwrap_or("file")
    }

    /// What it is, in lower case and without parameters: as it was said, else as its name tells.
    #[must_use]
    pub fn media_type(&self) -> Option<String> {
        let told = || media_type_of(self.name()).map(str::to_owned);
        self.mime_type.as_deref().map(essence).or_else(told)
    }
}

/// The content of a file. Shared, and not shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(transparent)]
pub struct FileData(pub Arc<str>);

impl fmt::Debug for FileData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<{} bytes>", self.0.len())
    }
}

/// A media type in lower case, without parameters such as `; charset=utf-8`.
#[must_use]
pub fn essence(mime_type: &str) -> String {
    let bare = mime_type.split(';').next().unwrap_or_default();
    bare.trim().to_ascii_lowercase()
}

/// Whether files of this media type are accepted. Parameters such as `; charset=utf-8` do not matter.
#[must_use]
pub fn is_attachment_type(mime_type: &str) -> bool {
    let essence = essence(mime_type);
    let media = IMAGES.iter().chain(&AUDIO).any(|known| *known == essence);
    media || essence == PDF || essence == DOCX || is_text_type(&essence)
}

/// Whether files of this media type, given without parameters, are read as text.
#[must_use]
pub fn is_text_type(essence: &str) -> bool {
    let text = essence.strip_prefix("text/");
    text.is_some_and(|kind| !kind.is_empty())
        || matches!(essence, "application/json" | "application/xml")
}

/// The image type or PDF that a file is by its first bytes, of which 1024 are enough.
#[must_use]
pub fn sniffed(beginning: &[u8]) -> Option<&'static str> {
    let is_webp = || beginning.starts_with(b"RIFF") && beginning.get(8..12) == Some(b"WEBP");
    match beginning {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if is_webp() => Some("image/webp"),
        // Readers accept anything before it.
        _ => {
            let mut places = beginning.windows(5).take(1024);
            places.any(|place| place == b"%PDF-").then_some(PDF)
        }
    }
}

/// The accepted media type that files with such a name usually have.
#[must_use]
pub fn media_type_of(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "m4a" | "mp4" => "audio/mp4",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "webm" => "audio/webm",
        "pdf" => PDF,
        "docx" => DOCX,
        "json" => "application/json",
        "xml" => "application/xml",
        "csv" => "text/csv",
        "htm" | "html" => "text/html",
        "md" => "text/markdown",
        "txt" | "text" | "log" => "text/plain",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_the_end_of_its_path() {
        for (url, name) in [
            ("https://h.example/a/report.pdf?sig=x/y", "report.pdf"),
            ("https://h.example/a/", "a"),
            ("https://h.example", "file"),
            ("https://h.example/?a=b", "file"),
        ] {
            assert_eq!(Attachment::at(url).name(), name, "{url}");
        }
        let mut named = Attachment::at("https://h.example/a.pdf");
        named.filename = Some("b.png".to_owned());
        assert_eq!(named.media_type().as_deref(), Some("image/png"));
        named.mime_type = Some("Text/Plain; charset=utf-8".to_owned());
        assert_eq!(named.media_type().as_deref(), Some("text/plain"));
    }

    #[test]
    fn what_everybody_sees_has_no_bytes() {
        let file = Attachment::inline("a.png", "image/png", "AAAA");
        assert!(!format!("{file:?}").contains("AAAA"));
        let shown = serde_json::to_value(file.info()).unwrap();
        let wanted =
            serde_json::json!({"type": "input_file", "mimeType": "image/png", "filename": "a.png"});
        assert_eq!(shown, wanted);
    }

    #[test]
    fn pictures_and_documents_are_known_by_how_they_begin() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a\x01", Some("image/gif")),
            (b"RIFF\x01\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x01\0\0\0WAVEfmt ", None),
            (b"%PDF-1.7", Some(PDF)),
            (b"\n\n%PDF-1.7", Some(PDF)),
            (b"hello", None),
            (b"", None),
        ] {
            assert_eq!(sniffed(bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn every_type_that_a_name_tells_is_accepted() {
        for name in "a.jpg a.JPEG a.png a.webp a.gif a.m4a a.mp3 a.wav a.webm a.pdf a.docx a.json a.xml a.csv a.html a.md a.txt".split(' ') {
            assert!(media_type_of(name).is_some_and(is_attachment_type), "{name}");
        }
        assert_eq!(media_type_of("a.exe"), None);
        assert_eq!(media_type_of("Makefile"), None);
    }
}
