//! Files of a user's message.

use serde_json::Value;

use super::fields::{Fields, within_count};
use super::issues::{Issues, Path, Short};
use super::tool_result::{decoded_bytes, mime_type};
use super::web;
use crate::attachment::{Attachment, AttachmentKind};
use crate::limits;

/// The files of a message; absent = none.
pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<Attachment> {
    let Some(array) = fields.array("attachments", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("attachments");
    if !within_count(array.len(), limits::ATTACHMENTS_MAX, &path, issues) {
        return Vec::new();
    }
    let read: Vec<Attachment> = array
        .iter()
        .enumerate()
        .filter_map(|(index, value)| attachment(value, &path.index(index), issues))
        .collect();
    let total: u64 = read.iter().filter_map(|file| file.size).sum();
    if total > limits::ATTACHMENTS_MAX_BYTES as u64 {
        let max = limits::ATTACHMENTS_MAX_BYTES;
        issues.add(
            &path,
            format_args!(
                "must be at most {max} bytes decoded, all together, got {total}; larger files can be given as `input_file_url`"
            ),
        );
    }
    read
}

fn attachment(value: &Value, path: &Path<'_>, issues: &mut Issues) -> Option<Attachment> {
    let fields = Fields::of(value, path, issues)?;
    fields.require("type", issues)?;
    match fields.str("type", issues)? {
        "input_file" => {
            let file = inline(&fields, issues)?;
            if file.size == Some(0) {
                fields.refuse("data", "must not be empty", issues);
            }
            Some(file)
        }
        "input_file_url" => at_address(&fields, issues),
        other => {
            let wanted = "expected `input_file` or `input_file_url`";
            fields.refuse(
                "type",
                format_args!("{wanted}, got `{}`", Short(other)),
                issues,
            );
            None
        }
    }
}

/// A file whose bytes are in the body.
pub(super) fn inline(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Attachment> {
    let filename = fields.required_text("filename", limits::FILE_NAME_MAX_CHARS, issues);
    let mime_type = mime_type(fields, issues);
    fields.require("data", issues)?;
    let data = fields.str("data", issues)?;
    let Some(bytes) = decoded_bytes(data) else {
        let message = "expected standard base64 with padding, without a `data:` prefix";
        fields.refuse("data", message, issues);
        return None;
    };
    Some(Attachment {
        size: Some(bytes as u64),
        ..Attachment::inline(filename?, mime_type?, data)
    })
}

/// Where the address may lead is for the outbound guard to say, or for the provider that fetches it.
fn at_address(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Attachment> {
    let filename = fields.text("filename", limits::FILE_NAME_MAX_CHARS, issues);
    let mime_type = match fields.get("mimeType") {
        Some(_) => mime_type(fields, issues),
        None => None,
    };
    fields.require("url", issues)?;
    let url = fields.str("url", issues)?;
    if let Err(message) = check_address(url) {
        fields.refuse("url", message, issues);
        return None;
    }
    Some(Attachment {
        kind: AttachmentKind::InputFileUrl,
        filename: filename.map(str::to_owned),
        mime_type: mime_type.map(str::to_owned),
        ..Attachment::at(url)
    })
}

fn check_address(url: &str) -> Result<(), &'static str> {
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
