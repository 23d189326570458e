//! Decodes text in the encoding that its sender declares.

use encoding_rs::{Encoding, UTF_8};

/// Bytes at the start of a page in which a `charset` declaration is looked for.
const SNIFFED_BYTES: usize = 1024;

/// Whether a body was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Complete,
    /// Its beginning, up to a limit. The last character may be incomplete.
    Truncated,
}

/// Decodes as a browser does: byte order mark, then the header's charset, then the page's own, then UTF-8. An
/// incomplete character at the end of a truncated body is dropped.
pub(crate) fn decode(content_type: Option<&str>, bytes: &[u8], extent: Extent) -> String {
    let encoding = content_type.and_then(declared_encoding).or_else(|| {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SNIFFED_BYTES)]);
        declared_encoding(&head)
    });
    let encoding = encoding.unwrap_or(UTF_8);
    if extent == Extent::Complete {
        return encoding.decode(bytes).0.into_owned();
    }
    let mut decoder = encoding.new_decoder();
    let capacity = decoder.max_utf8_buffer_length(bytes.len());
    let mut text = String::with_capacity(capacity.unwrap_or(bytes.len()));
    let _ = decoder.decode_to_string(bytes, &mut text, false);
    text
}

/// The encoding declared by a `Content-Type` or by the head of a page.
pub(crate) fn declared_encoding(text: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once("charset")?;
    let after = after.trim_start().strip_prefix('=')?.trim_start();
    let label = after.trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
    Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_declared_encoding() {
        for (text, name) in [
            ("text/html; charset=ISO-8859-1", Some("windows-1252")),
            ("text/html; Charset = \"utf-8\"; x=y", Some("UTF-8")),
            ("<meta charset='shift_jis'>", Some("Shift_JIS")),
            (
                "<meta http-equiv=x content=\"text/html; charset=koi8-r\">",
                Some("KOI8-R"),
            ),
            ("text/html; charset=nonsense", None),
            ("text/html; charset", None),
            ("text/html", None),
            ("charset==", None),
        ] {
            assert_eq!(declared_encoding(text).map(Encoding::name), name, "{text}");
        }
    }

    #[test]
    fn drops_an_incomplete_character_only_of_a_truncated_text() {
        for (content_type, bytes, complete, truncated) in [
            ("text/plain", &b"a\xc3"[..], "a\u{fffd}", "a"),
            ("text/plain; charset=shift_jis", b"a\x82", "a\u{fffd}", "a"),
            ("text/plain; charset=utf-16le", b"a\0b", "a\u{fffd}", "a"),
            ("text/plain; charset=iso-8859-1", b"a\xe4", "aä", "aä"),
        ] {
            let content_type = Some(content_type);
            let decoded = |extent| decode(content_type, bytes, extent);
            assert_eq!(decoded(Extent::Complete), complete);
            assert_eq!(decoded(Extent::Truncated), truncated);
        }
    }
}
