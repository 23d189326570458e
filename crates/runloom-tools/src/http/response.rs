//! The result of an HTTP tool from its response.

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

use super::template_values::{as_text, field};
use crate::call_secrets::CallSecrets;
use crate::charset::{self, Extent};
use crate::content::ResultContent;

/// Maximum field names in the message for a pointer without a value.
const MAX_LISTED_FIELDS: usize = 20;

/// A response whose body was read to its end or to the limit.
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) media_type: Option<String>,
    /// The media type with its parameters.
    pub(super) content_type: Option<String>,
    /// The headers of a response to `HEAD`.
    pub(super) head: Option<String>,
    pub(super) body: Bytes,
    pub(super) extent: Extent,
}

impl HttpResponse {
    /// The outcome of the call.
    pub(super) fn outcome(&self, mapping: &ResponseMapping, secrets: &CallSecrets) -> Outcome {
        let mut content = ResultContent::new();
        if !self.status.is_success() {
            content.text(&format!("The response status is {}.", self.status));
            self.read(&mut content, secrets);
            return content.error();
        }
        if mapping.is_empty() {
            self.read(&mut content, secrets);
            if content.is_empty() {
                content.text(&format!("[{}, no content]", self.status));
            }
            return content.success();
        }
        match self.mapped(mapping) {
            Ok(text) => {
                content.text(&secrets.redact(text));
                content.success()
            }
            Err(reason) => {
                content.text(&secrets.redact(reason));
                content.error()
            }
        }
    }

    fn is_truncated(&self) -> bool {
        self.extent == Extent::Truncated
    }

    fn read(&self, content: &mut ResultContent, secrets: &CallSecrets) {
        if let Some(head) = &self.head {
            content.text(&secrets.redact(head.clone()));
        }
        if self.body.is_empty() {
            return;
        }
        let media_type = self.media_type.as_deref().unwrap_or("text/plain");
        if !is_text(media_type) && !self.is_truncated() && is_attachment_type(media_type) {
            let extension = media_type.rsplit('/').next().unwrap_or_default();
            let name = format!("response.{extension}");
            content.file(&name, media_type, &STANDARD.encode(&self.body));
            return;
        }
        let Some(text) = self.text() else {
            let shown: String = media_type.chars().take(100).collect();
            content.text(&format!(
                "[{} bytes of {shown} omitted: models cannot read this type]",
                self.body.len()
            ));
            return;
        };
        if self.is_truncated() {
            content.text(&secrets.redact_truncated(text));
            content.text(&format!(
                "[truncated: the response is longer than the tool's limit of {} bytes; request less at a time]",
                self.body.len()
            ));
        } else {
            content.text(&secrets.redact(text));
        }
    }

    /// The body as text; `None` when it is binary, whatever its media type. A truncated body may end inside a
    /// character.
    fn text(&self) -> Option<String> {
        let media_type = self.media_type.as_deref();
        let content_type = self.content_type.as_deref();
        // JSON that is valid UTF-8 is read as such, whatever charset its header declares.
        let declared = content_type.and_then(charset::declared_encoding);
        let is_other = declared.is_some_and(|encoding| encoding != UTF_8)
            && media_type.is_some_and(|kind| is_text(kind) && !kind.ends_with("json"));
        let text = match std::str::from_utf8(&self.body) {
            Ok(text) if !is_other => text.to_owned(),
            Err(error) if !is_other && self.is_truncated() && error.error_len().is_none() => {
                String::from_utf8_lossy(&self.body[..error.valid_up_to()]).into_owned()
            }
            // Old servers send Latin-1, some without declaring it. A few wrong letters are better than no text.
            _ if media_type.is_some_and(is_text) => {
                charset::decode(content_type, &self.body, self.extent)
            }
            _ => return None,
        };
        (!text.contains('\0')).then_some(text)
    }

    fn mapped(&self, mapping: &ResponseMapping) -> Result<String, String> {
        if self.is_truncated() {
            return Err(format!(
                "The response is longer than the tool's limit of {} bytes, so no part of it can be selected.",
                self.body.len()
            ));
        }
        let text = self.text();
        let bytes = text.as_ref().map_or(&*self.body, |text| text.as_bytes());
        let whole: Value = serde_json::from_slice(bytes).map_err(|error| {
            format!("The response is not JSON ({error}), so no part of it can be selected.")
        })?;
        let part = match &mapping.pointer {
            Some(pointer) => whole
                .pointer(pointer)
                .ok_or_else(|| no_value_at(pointer, &whole))?,
            None => &whole,
        };
        Ok(match &mapping.template {
            Some(text) => fill(text, part),
            None => as_text(part).into_owned(),
        })
    }
}

fn no_value_at(pointer: &str, whole: &Value) -> String {
    let fields: Vec<&str> = match whole {
        Value::Object(fields) => fields
            .keys()
            .take(MAX_LISTED_FIELDS)
            .map(String::as_str)
            .collect(),
        _ => Vec::new(),
    };
    match fields.as_slice() {
        [] => format!("The response has no value at {pointer}."),
        fields => format!(
            "The response has no value at {pointer}; its fields are {}.",
            fields.join(", ")
        ),
    }
}

/// Fills a template with values of the response; absent values are empty.
fn fill(text: &str, part: &Value) -> String {
    let mut filled = String::new();
    for piece in template::pieces(text).unwrap_or_default() {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Argument(path) => {
                let found = path.split('.').try_fold(part, field);
                if let Some(value) = found.filter(|value| !value.is_null()) {
                    filled.push_str(&as_text(value));
                }
            }
            // Definitions with secrets in response templates are refused when they are stored.
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

    fn response(status: u16, content_type: &str, body: &[u8]) -> HttpResponse {
        let media_type = content_type.split(';').next();
        HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            media_type: media_type.map(str::to_owned),
            content_type: Some(content_type.to_owned()),
            head: None,
            body: Bytes::copy_from_slice(body),
            extent: Extent::Complete,
        }
    }

    fn truncated(content_type: &str, body: &[u8]) -> HttpResponse {
        HttpResponse {
            extent: Extent::Truncated,
            ..response(200, content_type, body)
        }
    }

    fn mapping(pointer: Option<&str>, template: Option<&str>) -> ResponseMapping {
        ResponseMapping {
            pointer: pointer.map(str::to_owned),
            template: template.map(str::to_owned),
        }
    }

    fn read(response: &HttpResponse, mapping: &ResponseMapping) -> (bool, String) {
        let outcome = response.outcome(mapping, &CallSecrets::of(&[("K", "canary")]));
        (outcome.is_error, outcome.content)
    }

    #[test]
    fn responses_become_texts_files_or_notes() {
        let none = ResponseMapping::default();
        let png = response(200, "image/png", b"\x89PNG\0");
        assert_eq!(png.outcome(&none, &CallSecrets::default()).files.len(), 1);
        for (status, media_type, body, is_error, expected) in [
            (
                200,
                "application/json",
                &b"{\"a\":1}"[..],
                false,
                "{\"a\":1}",
            ),
            (200, "text/plain", b"", false, "[200 OK, no content]"),
            (
                204,
                "text/plain",
                b"",
                false,
                "[204 No Content, no content]",
            ),
            (200, "text/plain", b"caf\xe9", false, "caf\u{fffd}"),
            (
                200,
                "application/zip",
                b"PK\0\xff",
                false,
                "[4 bytes of application/zip omitted: models cannot read this type]",
            ),
            (200, "text/plain", b"got canary!", false, "got ***!"),
            (
                404,
                "text/plain",
                b"no canary",
                true,
                "The response status is 404 Not Found.\nno ***",
            ),
            (
                500,
                "text/plain",
                b"",
                true,
                "The response status is 500 Internal Server Error.",
            ),
        ] {
            let read = read(&response(status, media_type, body), &none);
            assert_eq!(read, (is_error, expected.to_owned()));
        }
    }

    #[test]
    fn decodes_the_declared_encoding() {
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
            // JSON is UTF-8, but old servers declare and send others.
            (
                "application/json; charset=latin1",
                "\"é\"".as_bytes(),
                "\"é\"",
            ),
            ("application/json; charset=latin1", b"\"\xe9\"", "\"é\""),
            ("application/x-odd; charset=latin1", b"odd", "odd"),
        ] {
            let read = read(&response(200, content_type, body), &none);
            assert_eq!(read, (false, expected.to_owned()), "{content_type}");
        }
        let latin = response(200, "application/json; charset=latin1", b"{\"a\":\"\xe9\"}");
        let part = read(&latin, &mapping(Some("/a"), None));
        assert_eq!(part, (false, "é".to_owned()));
        let incomplete = truncated("text/plain; charset=shift_jis", b"a\x82");
        let (_, text) = read(&incomplete, &none);
        assert!(text.starts_with("a\n[truncated: "), "{text}");
    }

    #[test]
    fn truncated_responses_have_a_note_and_no_partial_secret() {
        let none = ResponseMapping::default();
        let inside_a_character = "aä".as_bytes().split_last().unwrap().1;
        let (_, text) = read(&truncated("text/plain", inside_a_character), &none);
        assert!(text.starts_with("a\n[truncated: "), "{text}");
        let (_, text) = read(&truncated("text/plain", b"got canar"), &none);
        assert!(text.starts_with("got ***\n[truncated: "), "{text}");
        let (failed, text) = read(
            &truncated("application/json", b"{\"a\":"),
            &mapping(Some("/a"), None),
        );
        assert!(failed && text.contains("longer than"), "{text}");
    }

    #[test]
    fn selects_a_part_of_the_response() {
        let body = br#"{"items": [{"name": "Oslo", "t": 3.5, "no": null}], "a/b": {"~": "x"}, "k": "canary"}"#;
        let whole = response(200, "application/json", body);
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
            &response(200, "text/html", b"<html>"),
            &mapping(Some("/a"), None),
        );
        assert!(failed && text.contains("not JSON"), "{text}");
    }
}
