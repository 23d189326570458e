//! `outputSchema` and `metadata`: documents with a size limit of their own.

use crate::check::names;
use crate::limits;
use crate::read::{Excerpt, Fields, Keyword};
use crate::spec::{Enforcement, Metadata, OutputSchema};

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
