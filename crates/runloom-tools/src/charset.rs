//! Text in the encoding that its sender names.

use encoding_rs::{Encoding, UTF_8};

/// Bytes in which a page's own word on its encoding is looked for.
const SNIFFED_BYTES: usize = 1024;

/// As a browser would: a byte order mark, then the header's word, then the page's own, then UTF-8. Of what was cut, half a character at
/// the end is left out.
pub(crate) fn decoded(content_type: Option<&str>, bytes: &[u8], is_cut: bool) -> String {
    let encoding = content_type.and_then(named).or_else(|| {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SNIFFED_BYTES)]);
        named(&head)
    });
    let encoding = encoding.unwrap_or(UTF_8);
    if !is_cut {
        return encoding.decode(bytes).0.into_owned();
    }
    let mut decoder = encoding.new_decoder();
    let most = decoder.max_utf8_buffer_length(bytes.len());
    let mut text = String::with_capacity(most.unwrap_or(bytes.len()));
    let _ = decoder.decode_to_string(bytes, &mut text, false);
    text
}

/// The encoding that a `Content-Type` or the head of a page names.
pub(crate) fn named(text: &str) -> Option<&'static Encoding> {
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
    fn encodings_are_found_where_browsers_look() {
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
            assert_eq!(named(text).map(Encoding::name), name, "{text}");
        }
    }

    #[test]
    fn half_a_character_is_left_out_only_where_the_text_was_cut() {
        for (content_type, bytes, whole, cut) in [
            ("text/plain", &b"a\xc3"[..], "a\u{fffd}", "a"),
            ("text/plain; charset=shift_jis", b"a\x82", "a\u{fffd}", "a"),
            ("text/plain; charset=utf-16le", b"a\0b", "a\u{fffd}", "a"),
            ("text/plain; charset=iso-8859-1", b"a\xe4", "aä", "aä"),
        ] {
            let content_type = Some(content_type);
            assert_eq!(decoded(content_type, bytes, false), whole);
            assert_eq!(decoded(content_type, bytes, true), cut);
        }
    }
}
