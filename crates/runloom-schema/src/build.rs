//! From a measured schema to a validator.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::{Draft, PatternOptions, Retrieve, Uri};
use serde_json::Value;

use crate::error::{SchemaError, SchemaErrorKind, shorten};
use crate::fan_out;
use crate::graph::{self, Graph};
use crate::limits::{ALL_PATTERNS_BYTES, BACKTRACKS, PATTERN_BYTES};
use crate::validator::{Validator, violation};

/// Nothing outside the schema exists. The graph has refused such references already; this is the second lock.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(
        &self,
        _uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("references outside the schema are not followed".into())
    }
}

/// Builds a validator. Shape and bytes have been checked.
pub(super) fn build(schema: &Value) -> Result<Validator, SchemaError> {
    if !schema.is_object() && !schema.is_boolean() {
        let message = "a JSON Schema is an object, or true or false";
        return Err(SchemaError::new(SchemaErrorKind::Invalid, "", message));
    }
    let draft = draft_of(schema)?;
    let mut graph = graph::read(schema, draft)?;
    graph.fan_out = fan_out::measure(&graph)?;
    let local = without_addresses(schema, &graph);
    let compile = AssertUnwindSafe(|| options(draft, &graph.patterns).build(&local));
    let compiled = match catch_unwind(compile) {
        Ok(Ok(compiled)) => compiled,
        Ok(Err(error)) => return Err(refused(&error)),
        Err(_) => {
            let message = "the schema cannot be used; make it simpler";
            return Err(SchemaError::new(SchemaErrorKind::Invalid, "", message));
        }
    };
    Ok(Validator::new(compiled, graph))
}

fn options<'o>(draft: Draft, patterns: &[String]) -> jsonschema::ValidationOptions<'o> {
    let size = PATTERN_BYTES.min(ALL_PATTERNS_BYTES / patterns.len().max(1));
    let options = jsonschema::options()
        .with_draft(draft)
        .with_retriever(Nowhere)
        .should_validate_formats(false);
    if patterns.iter().any(|pattern| looks_around(pattern)) {
        // Widely used generators write look-ahead into the patterns of e-mail addresses. This engine is linear where
        // the pattern is plain and gives up after a number of steps where it is not.
        let fancy = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(size)
            .dfa_size_limit(size);
        return options.with_pattern_options(fancy);
    }
    let linear = PatternOptions::regex()
        .size_limit(size)
        .dfa_size_limit(size);
    options.with_pattern_options(linear)
}

/// Whether a pattern has look-around or back-references, which no linear engine has.
fn looks_around(pattern: &str) -> bool {
    let group = |mark: &str| pattern.contains(mark);
    let reference = |pair: &[u8]| pair[0] == b'\\' && (pair[1].is_ascii_digit() || pair[1] == b'k');
    ["(?=", "(?!", "(?<=", "(?<!"].into_iter().any(group)
        || pattern.as_bytes().windows(2).any(reference)
}

/// The draft that `$schema` names; 2020-12 when there is none, as MCP and OpenAPI have it.
fn draft_of(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(Value::String(address)) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let name = address
        .trim_end_matches('#')
        .split_once("://")
        .map_or("", |(_, name)| name);
    match name {
        "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        "json-schema.org/draft-04/schema" => Ok(Draft::Draft4),
        _ => Err(SchemaError::new(
            SchemaErrorKind::Invalid,
            "/$schema",
            format!(
                "\"{}\" is not a known draft; use \"https://json-schema.org/draft/2020-12/schema\", an older draft \
                 from draft-04 on, or leave $schema out",
                shorten(address)
            ),
        )),
    }
}

/// The schema as it is built: without the root's own address, which could collide with the address of a draft, and
/// without identifiers that name nothing.
fn without_addresses(schema: &Value, graph: &Graph) -> Value {
    let mut local = schema.clone();
    if let Value::Object(root) = &mut local {
        root.shift_remove("$schema");
        for keyword in ["id", "$id"] {
            let is_address = |id: &Value| id.as_str().is_some_and(|id| !id.starts_with('#'));
            if root.get(keyword).is_some_and(is_address) {
                root.shift_remove(keyword);
            }
        }
    }
    for pointer in &graph.idle_ids {
        if let Some(Value::Object(fields)) = local.pointer_mut(pointer) {
            fields.shift_remove("id");
            fields.shift_remove("$id");
        }
    }
    local
}

fn refused(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    SchemaError::new(
        SchemaErrorKind::Invalid,
        error.instance_path().as_str(),
        format!("not a valid JSON Schema: {}", violation(error).message),
    )
}
