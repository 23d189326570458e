//! A client's result of a tool call.

use super::attachments;
use crate::attachment::Attachment;
use crate::limits;
use crate::read::{Fields, Node};
use crate::spec::{SubmitToolResult, ToolAnswer};

pub(super) fn read(fields: &Fields<'_, '_>) -> SubmitToolResult {
    let tool_use_id = fields
        .required_text("toolUseId", limits::TOOL_USE_ID_MAX_CHARS)
        .unwrap_or_default()
        .to_owned();
    let answer = answer(fields);
    let files = files(fields);
    if !files.is_empty() && matches!(answer, ToolAnswer::Error(_)) {
        fields.refuse("files", "files go with `result`, not with `error`");
    }
    SubmitToolResult {
        tool_use_id,
        answer,
        files,
    }
}

/// Exactly one of `result` and `error`; an empty string counts as given.
fn answer(fields: &Fields<'_, '_>) -> ToolAnswer {
    let (result, error) = (fields.get("result"), fields.get("error"));
    match (&result, &error) {
        (None, None) => {
            let message = "is required: give either `result` or `error` (an empty string counts)";
            fields.refuse("result", message);
        }
        (Some(_), Some(_)) => {
            fields.refuse("result", "give either `result` or `error`, not both");
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    let is_error = error.is_some();
    let result = result.map(|node| sized(node, limits::TOOL_RESULT_MAX_BYTES));
    let error = error.map(|node| sized(node, limits::TOOL_ERROR_MAX_BYTES));
    if is_error {
        ToolAnswer::Error(error.unwrap_or_default())
    } else {
        ToolAnswer::Result(result.unwrap_or_default())
    }
}

fn sized(node: Node<'_, '_>, max: usize) -> String {
    let text = node.string().unwrap_or_default();
    if text.len() > max {
        let got = text.len();
        node.refuse(format_args!("must be at most {max} bytes, got {got}"));
        return String::new();
    }
    text.to_owned()
}

fn files(fields: &Fields<'_, '_>) -> Vec<Attachment> {
    let read = fields.list("files", limits::TOOL_FILES_MAX, |node| {
        attachments::inline(&node.fields()?)
    });
    let files = read.unwrap_or_default();
    let (total, max) = (
        attachments::total_size(&files),
        limits::TOOL_FILES_MAX_BYTES,
    );
    if total > max as u64 {
        fields.refuse(
            "files",
            format_args!("must be at most {max} bytes decoded, all together, got {total}"),
        );
    }
    files
}
