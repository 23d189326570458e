//! Files of a user's message.

use crate::attachment::{Attachment, AttachmentKind, is_attachment_type};
use crate::check::web;
use crate::limits;
use crate::read::{Excerpt, Fields, Keyword, Node};

impl Keyword for AttachmentKind {
    const ALL: &'static [Self] = &[Self::InputFile, Self::InputFileUrl];

    fn word(self) -> &'static str {
        match self {
            Self::InputFile => "input_file",
            Self::InputFileUrl => "input_file_url",
        }
    }
}

/// The `attachments` of a message; none when absent.
pub(super) fn read(message: &Fields<'_, '_>) -> Vec<Attachment> {
    let read = message.list("attachments", limits::ATTACHMENTS_MAX, attachment);
    let files = read.unwrap_or_default();
    let (total, max) = (total_size(&files), limits::ATTACHMENTS_MAX_BYTES);
    if total > max as u64 {
        message.refuse(
            "attachments",
            format_args!(
                "must be at most {max} bytes decoded, all together, got {total}; larger files can be given as `input_file_url`"
            ),
        );
    }
    files
}

/// Decoded bytes of all files together.
pub(super) fn total_size(files: &[Attachment]) -> u64 {
    files.iter().filter_map(|file| file.size).sum()
}

fn attachment(node: Node<'_, '_>) -> Option<Attachment> {
    let fields = node.fields()?;
    match fields.require("type")?.keyword()? {
        AttachmentKind::InputFile => {
            let file = inline(&fields)?;
            if file.size == Some(0) {
                fields.refuse("data", "must not be empty");
            }
            Some(file)
        }
        AttachmentKind::InputFileUrl => by_url(&fields),
    }
}

/// A file whose bytes are in the body.
pub(super) fn inline(fields: &Fields<'_, '_>) -> Option<Attachment> {
    let filename = fields.required_text("filename", limits::FILE_NAME_MAX_CHARS);
    let mime_type = fields.require("mimeType").and_then(mime_type);
    let node = fields.require("data")?;
    let data = node.string()?;
    let Some(bytes) = decoded_bytes(data) else {
        node.refuse("expected standard base64 with padding, without a `data:` prefix");
        return None;
    };
    Some(Attachment {
        size: Some(bytes as u64),
        ..Attachment::inline(filename?, mime_type?, data)
    })
}

/// A file at a URL. Whether the server may connect to the URL is decided by the outbound guard.
fn by_url(fields: &Fields<'_, '_>) -> Option<Attachment> {
    url_part(fields, "url")
}

/// A file whose bytes stand under `key`, without a name of its own.
pub(super) fn data_part(fields: &Fields<'_, '_>, key: &'static str) -> Option<Attachment> {
    let filename = fields.text("filename", limits::FILE_NAME_MAX_CHARS);
    let mime_type = fields.require("mimeType").and_then(mime_type);
    let node = fields.require(key)?;
    let data = node.string()?;
    let Some(bytes) = decoded_bytes(data).filter(|bytes| *bytes > 0) else {
        node.refuse(
            "expected standard base64 with padding, without a `data:` prefix, and not empty",
        );
        return None;
    };
    let mime_type = mime_type?;
    let filename = filename.filter(|name| !name.is_empty());
    let kind = mime_type.split('/').next().unwrap_or("file");
    Some(Attachment {
        size: Some(bytes as u64),
        ..Attachment::inline(filename.unwrap_or(kind), mime_type, data)
    })
}

/// A file at the URL under `key`.
pub(super) fn url_part(fields: &Fields<'_, '_>, key: &'static str) -> Option<Attachment> {
    let filename = fields.text("filename", limits::FILE_NAME_MAX_CHARS);
    let mime_type = fields.get("mimeType").and_then(mime_type);
    let node = fields.require(key)?;
    let url = node.string()?;
    if let Err(message) = check_url(url) {
        node.refuse(message);
        return None;
    }
    Some(Attachment {
        kind: AttachmentKind::InputFileUrl,
        filename: filename.map(str::to_owned),
        mime_type: mime_type.map(str::to_owned),
        ..Attachment::at(url)
    })
}

fn check_url(url: &str) -> Result<(), &'static str> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")) {
        return Err("expected an https:// URL");
    }
    let authority = url.split(['/', '?', '#']).nth(2).unwrap_or_default();
    if authority.contains('@') {
        return Err("must not contain a user name or password");
    }
    web::check_url(url)
}

/// A media type that is accepted.
fn mime_type<'v>(node: Node<'v, '_>) -> Option<&'v str> {
    let text = node.filled_text(limits::REFERENCE_MAX_CHARS)?;
    if !is_attachment_type(text) {
        let wanted = "expected audio (mp4, mpeg, wav, webm), an image (jpeg, png, webp, gif), PDF, DOCX, text/*, JSON or XML";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
        return None;
    }
    Some(text)
}

/// The number of bytes that `text` decodes to, when it is standard base64. Nothing is decoded.
fn decoded_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    // Decoders require the unused bits of the last digit to be zero.
    let last = digits.bytes().last();
    let is_whole = match padding {
        0 => true,
        1 => last.is_some_and(|b| b"AEIMQUYcgkosw048".contains(&b)),
        _ => last.is_some_and(|b| b"AQgw".contains(&b)),
    };
    (text.len().is_multiple_of(4) && padding <= 2 && is_whole && digits.bytes().all(alphabet))
        .then(|| text.len() / 4 * 3 - padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_the_decoded_size_of_base64() {
        let table = [
            ("", Some(0)),
            ("QQ==", Some(1)),
            ("QUI=", Some(2)),
            ("QUJD", Some(3)),
            ("QUJDRA==", Some(4)),
            ("QQ", None),
            ("QR==", None),
            ("QUJ=", None),
            ("Q===", None),
            ("====", None),
            ("QU-_", None),
            ("QU\n=", None),
            ("data:text/plain;base64,QQ==", None),
        ];
        for (text, bytes) in table {
            assert_eq!(decoded_bytes(text), bytes, "{text:?}");
        }
    }
}
