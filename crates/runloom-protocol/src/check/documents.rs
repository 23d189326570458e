//! Parts of a tool that are kept as they were written, within a size limit.

use serde_json::{Map, Value};

use crate::limits;
use crate::read::Fields;

/// A document of a tool.
pub(crate) fn document(fields: &Fields<'_, '_>, key: &'static str) -> Option<Value> {
    let node = fields.get(key)?;
    node.has_bytes_within(limits::TOOL_DOCUMENT_MAX_BYTES)
        .then(|| node.value().clone())
}

/// As [`document`], for documents that must be objects.
pub(crate) fn object_document(
    fields: &Fields<'_, '_>,
    key: &'static str,
) -> Option<Map<String, Value>> {
    let node = fields.get(key)?;
    let object = node.fields()?.object();
    node.has_bytes_within(limits::TOOL_DOCUMENT_MAX_BYTES)
        .then(|| object.clone())
}

/// The `description` of a tool, unless it is empty.
pub(crate) fn description(fields: &Fields<'_, '_>) -> Option<String> {
    fields
        .text("description", limits::DESCRIPTION_MAX_CHARS)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
