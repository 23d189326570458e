//! Documents with a size limit of their own: `outputSchema`, `metadata`, and those of tools.

use serde_json::Value;

use super::names;
use crate::limits;
use crate::read::{Excerpt, Fields, Keyword};
use crate::spec::{Enforcement, Metadata, OutputSchema};
use crate::tools::Object;

impl Keyword for Enforcement {
    const ALL: &'static [Self] = &[Self::BestEffort, Self::Strict];

    fn word(self) -> &'static str {
        match self {
            Self::BestEffort => "best_effort",
            Self::Strict => "strict",
        }
    }
}

pub(super) fn output_schema(fields: &Fields<'_, '_>) -> Option<OutputSchema> {
    let node = fields.get("outputSchema")?;
    node.has_bytes_within(limits::OUTPUT_SCHEMA_MAX_BYTES);
    let fields = node.fields()?;
    let name = schema_name(&fields);
    let enforcement = fields.keyword("enforcement");
    let schema = fields.require("schema")?.fields()?;
    Some(OutputSchema {
        name,
        schema: schema.object().clone(),
        enforcement: enforcement.unwrap_or_default(),
    })
}

fn schema_name(fields: &Fields<'_, '_>) -> String {
    let Some(name) = fields.string("name") else {
        return "output".to_owned();
    };
    if !names::is_schema_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_-]";
        fields.refuse("name", format_args!("{wanted}, got `{}`", Excerpt(name)));
    }
    name.to_owned()
}

pub(super) fn metadata(fields: &Fields<'_, '_>) -> Metadata {
    let mut metadata = Metadata::new();
    let Some(node) = fields.get("metadata") else {
        return metadata;
    };
    let Some(fields) = node.fields() else {
        return metadata;
    };
    node.has_entries_within(fields.object().len(), limits::METADATA_MAX);
    node.has_bytes_within(limits::METADATA_MAX_BYTES);
    for (key, value) in fields.entries() {
        if !names::is_metadata_key(key) {
            value.refuse("the key must be 1 to 64 of [A-Za-z0-9._-]");
        }
        if let Some(text) = value.text(limits::METADATA_VALUE_MAX_CHARS) {
            metadata.insert(key.to_owned(), text.to_owned());
        }
    }
    metadata
}

/// A document of a tool, kept as it is.
pub(super) fn of_tool(fields: &Fields<'_, '_>, key: &'static str) -> Option<Value> {
    let node = fields.get(key)?;
    node.has_bytes_within(limits::TOOL_DOCUMENT_MAX_BYTES)
        .then(|| node.value().clone())
}

/// As [`of_tool`], for documents that must be objects.
pub(super) fn object_of_tool(fields: &Fields<'_, '_>, key: &'static str) -> Option<Object> {
    let node = fields.get(key)?;
    let object = node.fields()?.object();
    node.has_bytes_within(limits::TOOL_DOCUMENT_MAX_BYTES)
        .then(|| object.clone())
}
