//! A client's answer to a tool call.

use serde_json::Value;

use super::attachments;
use super::fields::{Fields, within_count};
use super::issues::{Issues, Path, Short};
use crate::attachment::{Attachment, is_attachment_type};
use crate::limits;
use crate::spec::{SubmitToolResult, ToolAnswer};

pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> SubmitToolResult {
    let tool_use_id = fields
        .required_text("toolUseId", limits::TOOL_USE_ID_MAX_CHARS, issues)
        .unwrap_or_default()
        .to_owned();
    let answer = answer(fields, issues);
    let files = files(fields, issues);
    if !files.is_empty() && matches!(answer, ToolAnswer::Error(_)) {
        fields.refuse("files", "files go with `result`, not with `error`", issues);
    }
    SubmitToolResult {
        tool_use_id,
        answer,
        files,
    }
}

/// An empty string is an answer; absence is not.
fn answer(fields: &Fields<'_, '_>, issues: &mut Issues) -> ToolAnswer {
    let given = (fields.get("result"), fields.get("error"));
    match given {
        (None, None) => {
            let message = "is required: give either `result` or `error` (an empty string counts)";
            fields.refuse("result", message, issues);
        }
        (Some(_), Some(_)) => {
            fields.refuse(
                "result",
                "give either `result` or `error`, not both",
                issues,
            );
        }
        _ => {}
    }
    let result = sized(fields, "result", limits::TOOL_RESULT_MAX_BYTES, issues);
    let error = sized(fields, "error", limits::TOOL_ERROR_MAX_BYTES, issues);
    match given.1 {
        Some(_) => ToolAnswer::Error(error),
        None => ToolAnswer::Result(result),
    }
}

fn sized(fields: &Fields<'_, '_>, key: &str, max: usize, issues: &mut Issues) -> String {
    let text = fields.str(key, issues).unwrap_or_default();
    if text.len() > max {
        let got = text.len();
        fields.refuse(
            key,
            format_args!("must be at most {max} bytes, got {got}"),
            issues,
        );
        return String::new();
    }
    text.to_owned()
}

fn files(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<Attachment> {
    let Some(array) = fields.array("files", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("files");
    if !within_count(array.len(), limits::TOOL_FILES_MAX, &path, issues) {
        return Vec::new();
    }
    let files: Vec<Attachment> = array
        .iter()
        .enumerate()
        .filter_map(|(index, value)| file(value, &path.index(index), issues))
        .collect();
    let total: u64 = files.iter().filter_map(|file| file.size).sum();
    if total > limits::TOOL_FILES_MAX_BYTES as u64 {
        let max = limits::TOOL_FILES_MAX_BYTES;
        issues.add(
            &path,
            format_args!("must be at most {max} bytes decoded, all together, got {total}"),
        );
    }
    files
}

fn file(value: &Value, path: &Path<'_>, issues: &mut Issues) -> Option<Attachment> {
    let fields = Fields::of(value, path, issues)?;
    attachments::inline(&fields, issues)
}

/// A required media type that is accepted.
pub(super) fn mime_type<'v>(fields: &Fields<'v, '_>, issues: &mut Issues) -> Option<&'v str> {
    let text = fields.required_text("mimeType", limits::REFERENCE_MAX_CHARS, issues)?;
    if !is_attachment_type(text) {
        let wanted = "expected audio (mp4, mpeg, wav, webm), an image (jpeg, png, webp, gif), PDF, DOCX, text/*, JSON or XML";
        fields.refuse(
            "mimeType",
            format_args!("{wanted}, got `{}`", Short(text)),
            issues,
        );
        return None;
    }
    Some(text)
}

/// How many bytes `text` decodes to, when it is standard base64. Decoding is for whoever needs the bytes.
pub(super) fn decoded_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    // The last digit has bits that stand for nothing; decoders want them to be zero.
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
    fn decoded_size_is_computed_from_base64_text() {
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
