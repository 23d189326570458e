//! What the model reads of an HTTP answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use encoding_rs::UTF_8;
use reqwest::StatusCode;
use runloom_ports::tools::Outcome;
use runloom_protocol::definition::ResponseMapping;
use runloom_protocol::definition::template::{self, Piece};
use runloom_protocol::validate::is_attachment_type;
use serde_json::Value;

use super::fill::{as_text, step};
use crate::action::Secrets;
use crate::charset;
use crate::content::Content;

/// Names of fields that are shown when a pointer leads nowhere.
const SHOWN_FIELDS: usize = 20;

/// An answer that was read to its end or to its limit.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) media_type: Option<String>,
    /// The media type with its parameters.
    pub(super) content_type: Option<String>,
    /// Its headers, when they are all that was asked for.
    pub(super) head: Option<String>,
    pub(super) body: Bytes,
    /// There was more than the limit; `body` is its beginning.
    pub(super) is_cut: bool,
}

impl Answer {
    /// The outcome of the call.
    pub(super) fn outcome(&self, mapping: &ResponseMapping, secrets: &Secrets) -> Outcome {
        let mut content = Content::new();
        if !self.status.is_success() {
            content.text(&format!("The answer's status is {}.", self.status));
            self.read(&mut content, secrets);
            return content.error();
        }
        if mapping.is_empty() {
            self.read(&mut content, secrets);
            if content.is_empty() {
                content.text(&format!("[{}, without content]", self.status));
            }
            return content.success();
        }
        match self.mapped(mapping) {
            Ok(text) => {
                content.text(&secrets.redact(text));
                content.success()
            }
            Err(why) => {
                content.text(&secrets.redact(why));
                content.error()
            }
        }
    }

    fn read(&self, content: &mut Content, secrets: &Secrets) {
        if let Some(head) = &self.head {
            content.text(&secrets.redact(head.clone()));
        }
        if self.body.is_empty() {
            return;
        }
        let media_type = self.media_type.as_deref().unwrap_or("text/plain");
        if !is_text(media_type) && !self.is_cut && is_attachment_type(media_type) {
            let ending = media_type.rsplit('/').next().unwrap_or_default();
            let name = format!("answer.{ending}");
            content.file(&name, media_type, &STANDARD.encode(&self.body));
            return;
        }
        let Some(text) = self.text() else {
            let shown: String = media_type.chars().take(100).collect();
            content.text(&format!(
                "[{} bytes of {shown} left out: models cannot read this type]",
                self.body.len()
            ));
            return;
        };
        if self.is_cut {
            content.text(&secrets.redact_cut(text));
            content.text(&format!(
                "[cut: the answer is longer than the tool's limit of {} bytes; ask for less at a time]",
                self.body.len()
            ));
        } else {
            content.text(&secrets.redact(text));
        }
    }

    /// The body as text; `None` when it is something else, whatever it calls itself. A cut may fall into a character.
    fn text(&self) -> Option<String> {
        let media_type = self.media_type.as_deref();
        let content_type = self.content_type.as_deref();
        // JSON is UTF-8 wherever it can be, whatever its header says.
        let declared = content_type.and_then(charset::named);
        let is_other = declared.is_some_and(|encoding| encoding != UTF_8)
            && media_type.is_some_and(|kind| is_text(kind) && !kind.ends_with("json"));
        let text = match std::str::from_utf8(&self.body) {
            Ok(text) if !is_other => text.to_owned(),
            Err(error) if !is_other && self.is_cut && error.error_len().is_none() => {
                String::from_utf8_lossy(&self.body[..error.valid_up_to()]).into_owned()
            }
            // Old servers speak Latin-1, some without saying so; a few wrong letters are better than none.
            _ if media_type.is_some_and(is_text) => {
                charset::decoded(content_type, &self.body, self.is_cut)
            }
            _ => return None,
        };
        (!text.contains('\0')).then_some(text)
    }

    fn mapped(&self, mapping: &ResponseMapping) -> Result<String, String> {
        if self.is_cut {
            return Err(format!(
                "The answer is longer than the tool's limit of {} bytes, so that no part of it can be selected.",
                self.body.len()
            ));
        }
        let text = self.text();
        let bytes = text.as_ref().map_or(&*self.body, |text| text.as_bytes());
        let whole: Value = serde_json::from_slice(bytes).map_err(|error| {
            format!("The answer is not JSON ({error}), so that no part of it can be selected.")
        })?;
        let part = match &mapping.pointer {
            Some(pointer) => whole
                .pointer(pointer)
                .ok_or_else(|| nothing_at(pointer, &whole))?,
            None => &whole,
        };
        Ok(match &mapping.template {
            Some(text) => fill(text, part),
            None => as_text(part).into_owned(),
        })
    }
}

fn nothing_at(pointer: &str, whole: &Value) -> String {
    let fields: Vec<&str> = match whole {
        Value::Object(fields) => fields
            .keys()
            .take(SHOWN_FIELDS)
            .map(String::as_str)
            .collect(),
        _ => Vec::new(),
    };
    match fields.as_slice() {
        [] => format!("The answer has nothing at {pointer}."),
        fields => format!(
            "The answer has nothing at {pointer}; its fields are {}.",
            fields.join(", ")
        ),
    }
}

/// A text over the answer; what is absent is empty.
fn fill(text: &str, part: &Value) -> String {
    let mut filled = String::new();
    for piece in template::pieces(text).unwrap_or_default() {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Argument(path) => {
                let found = path.split('.').try_fold(part, step);
                if let Some(value) = found.filter(|value| !value.is_null()) {
                    filled.push_str(&as_text(value));
                }
            }
            // Definitions with secrets here are refused when they are stored.
            Piece::Secret(_) => {}
        }
    }
    filled
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("json")
        || media_type.ends_with("xml")
        || matches!(
            media_type,
            "application/javascript" | "application/yaml" | "application/x-www-form-urlencoded"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, content_type: &str, body: &[u8], is_cut: bool) -> Answer {
        let media_type = content_type.split(';').next();
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            media_type: media_type.map(str::to_owned),
            content_type: Some(content_type.to_owned()),
            head: None,
            body: Bytes::copy_from_slice(body),
            is_cut,
        }
    }

    fn mapping(pointer: Option<&str>, template: Option<&str>) -> ResponseMapping {
        ResponseMapping {
            pointer: pointer.map(str::to_owned),
            template: template.map(str::to_owned),
        }
    }

    fn read(answer: &Answer, mapping: &ResponseMapping) -> (bool, String) {
        let outcome = answer.outcome(mapping, &Secrets::of(&[("K", "canary")]));
        (outcome.is_error, outcome.content)
    }

    #[test]
    fn answers_become_texts_files_or_notes() {
        let none = ResponseMapping::default();
        let png = answer(200, "image/png", b"\x89PNG\0", false);
        assert_eq!(png.outcome(&none, &Secrets::default()).files.len(), 1);
        for (status, media_type, body, is_error, expected) in [
            (
                200,
                "application/json",
                &b"{\"a\":1}"[..],
                false,
                "{\"a\":1}",
            ),
            (200, "text/plain", b"", false, "[200 OK, without content]"),
            (
                204,
                "text/plain",
                b"",
                false,
                "[204 No Content, without content]",
            ),
            (200, "text/plain", b"caf\xe9", false, "caf\u{fffd}"),
            (
                200,
                "application/zip",
                b"PK\0\xff",
                false,
                "[4 bytes of application/zip left out: models cannot read this type]",
            ),
            (200, "text/plain", b"got canary!", false, "got ***!"),
            (
                404,
                "text/plain",
                b"no canary",
                true,
                "The answer's status is 404 Not Found.\nno ***",
            ),
            (
                500,
                "text/plain",
                b"",
                true,
                "The answer's status is 500 Internal Server Error.",
            ),
        ] {
            let read = read(&answer(status, media_type, body, false), &none);
            assert_eq!(read, (is_error, expected.to_owned()));
        }
    }

    #[test]
    fn an_answer_is_read_in_the_encoding_that_it_names() {
        let none = ResponseMapping::default();
        for (content_type, body, expected) in [
            ("text/csv; charset=ISO-8859-1", &b"caf\xe9"[..], "café"),
            ("text/csv; charset=\"windows-1251\"", b"\xe4\xe0", "да"),
            ("text/plain; charset=utf-16le", b"h\0i\0", "hi"),
            ("text/plain; charset=latin1", "é".as_bytes(), "Ã©"),
            (
                "text/html",
                b"<meta charset=koi8-r>\xc4\xc1",
                "<meta charset=koi8-r>да",
            ),
            ("text/plain; charset=utf-8", "é".as_bytes(), "é"),
            ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
            // JSON has one encoding; old servers do not know it.
            (
                "application/json; charset=latin1",
                "\"é\"".as_bytes(),
                "\"é\"",
            ),
            ("application/json; charset=latin1", b"\"\xe9\"", "\"é\""),
            ("application/x-odd; charset=latin1", b"odd", "odd"),
        ] {
            let read = read(&answer(200, content_type, body, false), &none);
            assert_eq!(read, (false, expected.to_owned()), "{content_type}");
        }
        let latin = answer(
            200,
            "application/json; charset=latin1",
            b"{\"a\":\"\xe9\"}",
            false,
        );
        let part = read(&latin, &mapping(Some("/a"), None));
        assert_eq!(part, (false, "é".to_owned()));
        let cut = answer(200, "text/plain; charset=shift_jis", b"a\x82", true);
        let (_, text) = read(&cut, &none);
        assert!(text.starts_with("a\n[cut: "), "{text}");
    }

    #[test]
    fn a_cut_answer_says_so_and_ends_at_a_character_without_half_a_secret() {
        let none = ResponseMapping::default();
        let (_, text) = read(
            &answer(
                200,
                "text/plain",
                "aä".as_bytes().split_last().unwrap().1,
                true,
            ),
            &none,
        );
        assert!(text.starts_with("a\n[cut: "), "{text}");
        let (_, text) = read(&answer(200, "text/plain", b"got canar", true), &none);
        assert!(text.starts_with("got ***\n[cut: "), "{text}");
        let (failed, text) = read(
            &answer(200, "application/json", b"{\"a\":", true),
            &mapping(Some("/a"), None),
        );
        assert!(failed && text.contains("longer than"), "{text}");
    }

    #[test]
    fn a_part_of_the_answer_is_selected() {
        let body = br#"{"items": [{"name": "Oslo", "t": 3.5, "no": null}], "a/b": {"~": "x"}, "k": "canary"}"#;
        let whole = answer(200, "application/json", body, false);
        for (pointer, template, expected) in [
            (Some("/items/0/name"), None, "Oslo"),
            (Some("/items/0/t"), None, "3.5"),
            (Some("/a~1b/~0"), None, "x"),
            (Some("/k"), None, "***"),
            (
                Some("/items/0"),
                Some("{{name}}: {{t}}°{{no}}{{gone.x}}"),
                "Oslo: 3.5°",
            ),
            (None, Some("{{items.0.name}}!"), "Oslo!"),
        ] {
            let read = read(&whole, &mapping(pointer, template));
            assert_eq!(read, (false, expected.to_owned()));
        }
        let (failed, text) = read(&whole, &mapping(Some("/nope"), None));
        assert!(
            failed && text.ends_with("its fields are items, a/b, k."),
            "{text}"
        );
        let (failed, text) = read(
            &answer(200, "text/html", b"<html>", false),
            &mapping(Some("/a"), None),
        );
        assert!(failed && text.contains("not JSON"), "{text}");
    }
}
