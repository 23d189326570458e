//! A client's answer to a tool call.

use serde_json::Value;

use super::fields::{Fields, within_count};
use super::issues::{Issues, Path, Short};
use crate::limits;
use crate::spec::{SubmitToolResult, ToolAnswer, ToolFile};

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

fn files(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<ToolFile> {
    let Some(array) = fields.array("files", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("files");
    if !within_count(array.len(), limits::TOOL_FILES_MAX, &path, issues) {
        return Vec::new();
    }
    let mut total = 0;
    let mut files = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        if let Some((file, bytes)) = file(value, &path.index(index), issues) {
            total += bytes;
            files.push(file);
        }
    }
    if total > limits::TOOL_FILES_MAX_BYTES {
        let max = limits::TOOL_FILES_MAX_BYTES;
        issues.add(
            &path,
            format_args!("must be at most {max} bytes decoded, all together, got {total}"),
        );
    }
    files
}

fn file(value: &Value, path: &Path<'_>, issues: &mut Issues) -> Option<(ToolFile, usize)> {
    let fields = Fields::of(value, path, issues)?;
    let filename = fields.required_text("filename", limits::FILE_NAME_MAX_CHARS, issues);
    let mime_type = mime_type(&fields, issues);
    fields.require("data", issues)?;
    let data = fields.str("data", issues)?;
    let Some(bytes) = decoded_bytes(data) else {
        let message = "expected standard base64 with padding, without a `data:` prefix";
        fields.refuse("data", message, issues);
        return None;
    };
    let file = ToolFile {
        filename: filename?.to_owned(),
        mime_type: mime_type?.to_owned(),
        data: data.to_owned(),
    };
    Some((file, bytes))
}

fn mime_type<'v>(fields: &Fields<'v, '_>, issues: &mut Issues) -> Option<&'v str> {
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

/// Whether files of this media type are accepted. Parameters such as `; charset=utf-8` do not matter.
#[must_use]
pub fn is_attachment_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("audio", sub)) => matches!(sub, "mp4" | "mpeg" | "wav" | "webm"),
        Some(("image", sub)) => matches!(sub, "jpeg" | "png" | "webp" | "gif"),
        Some(("text", sub)) => !sub.is_empty(),
        Some(("application", sub)) => matches!(
            sub,
            "pdf" | "json" | "xml" | "vnd.openxmlformats-officedocument.wordprocessingml.document"
        ),
        _ => false,
    }
}

/// How many bytes `text` decodes to, when it is standard base64. Decoding is for whoever needs the bytes.
fn decoded_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    (text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(alphabet))
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
