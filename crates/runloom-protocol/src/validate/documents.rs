//! The output schema and the metadata: small documents with a size of their own.

use super::fields::{Fields, expect, json_bytes, string, within_chars, within_count};
use super::issues::{Issues, Short};
use super::names;
use crate::limits;
use crate::spec::{Enforcement, Metadata, OutputSchema};

pub(super) fn output_schema(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<OutputSchema> {
    let value = fields.get("outputSchema")?;
    let path = fields.path.key("outputSchema");
    let bytes = json_bytes(value);
    if bytes > limits::OUTPUT_SCHEMA_MAX_BYTES {
        let max = limits::OUTPUT_SCHEMA_MAX_BYTES;
        issues.add(
            &path,
            format_args!("must be at most {max} bytes of JSON, got {bytes}"),
        );
    }
    let fields = Fields::of(value, &path, issues)?;
    let name = schema_name(&fields, issues);
    let enforcement = enforcement(&fields, issues);
    fields.require("schema", issues)?;
    let schema = fields.object("schema", issues)?;
    Some(OutputSchema {
        name,
        schema: schema.clone(),
        enforcement,
    })
}

fn schema_name(fields: &Fields<'_, '_>, issues: &mut Issues) -> String {
    let Some(name) = fields.str("name", issues) else {
        return "output".to_owned();
    };
    if !names::is_schema_name(name) {
        let wanted = "expected 1 to 64 of [a-zA-Z0-9_-]";
        fields.refuse(
            "name",
            format_args!("{wanted}, got `{}`", Short(name)),
            issues,
        );
    }
    name.to_owned()
}

fn enforcement(fields: &Fields<'_, '_>, issues: &mut Issues) -> Enforcement {
    match fields.str("enforcement", issues) {
        None | Some("best_effort") => Enforcement::BestEffort,
        Some("strict") => Enforcement::Strict,
        Some(other) => {
            let wanted = "expected `best_effort` or `strict`";
            fields.refuse(
                "enforcement",
                format_args!("{wanted}, got `{}`", Short(other)),
                issues,
            );
            Enforcement::BestEffort
        }
    }
}

pub(super) fn metadata(fields: &Fields<'_, '_>, issues: &mut Issues) -> Metadata {
    let Some(value) = fields.get("metadata") else {
        return Metadata::new();
    };
    let path = fields.path.key("metadata");
    let Some(object) = expect(value.as_object(), value, &path, "an object", issues) else {
        return Metadata::new();
    };
    within_count(object.len(), limits::METADATA_MAX, &path, issues);
    let bytes = json_bytes(value);
    if bytes > limits::METADATA_MAX_BYTES {
        let max = limits::METADATA_MAX_BYTES;
        issues.add(
            &path,
            format_args!("must be at most {max} bytes of JSON, got {bytes}"),
        );
    }
    let mut metadata = Metadata::new();
    for (key, value) in object {
        let path = path.key(key);
        if !names::is_metadata_key(key) {
            issues.add(&path, "the key must be 1 to 64 of [A-Za-z0-9._-]");
        }
        let Some(text) = string(value, &path, issues) else {
            continue;
        };
        if within_chars(text, limits::METADATA_VALUE_MAX_CHARS, &path, issues) {
            metadata.insert(key.clone(), text.to_owned());
        }
    }
    metadata
}
