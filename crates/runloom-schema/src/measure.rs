//! The sizes of a JSON value, without recursion.

use serde_json::Value;

use crate::error::{SchemaError, SchemaErrorKind};
use crate::limits::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};

/// Refuses what is too deep or has too many values; must pass before anything recursive touches the schema.
pub(super) fn check_shape(schema: &Value) -> Result<(), SchemaError> {
    let too_large = |message: String| Err(SchemaError::new(SchemaErrorKind::TooLarge, "", message));
    let mut stack = vec![(schema, 1)];
    let mut values = 0;
    while let Some((value, depth)) = stack.pop() {
        values += 1;
        if values > MAX_VALUES {
            return too_large(format!(
                "the schema has more than {MAX_VALUES} values; make it smaller"
            ));
        }
        if depth > MAX_DEPTH {
            return too_large(format!(
                "the schema is nested more than {MAX_DEPTH} levels deep; move parts to $defs"
            ));
        }
        match value {
            Value::Array(items) => stack.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => stack.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// The schema's bytes, which are also its identity in the cache.
pub(super) fn bytes(schema: &Value) -> Result<Vec<u8>, SchemaError> {
    let bytes = serde_json::to_vec(schema)
        .map_err(|error| SchemaError::new(SchemaErrorKind::Invalid, "", error.to_string()))?;
    if bytes.len() > MAX_BYTES {
        let message = format!(
            "the schema has {} bytes; at most {MAX_BYTES} are allowed",
            bytes.len()
        );
        return Err(SchemaError::new(SchemaErrorKind::TooLarge, "", message));
    }
    Ok(bytes)
}

/// How many values a value consists of, itself included.
pub(super) fn count(value: &Value) -> u64 {
    let mut stack = vec![value];
    let mut values = 0;
    while let Some(value) = stack.pop() {
        values += 1;
        match value {
            Value::Array(items) => stack.extend(items),
            Value::Object(fields) => stack.extend(fields.values()),
            _ => {}
        }
    }
    values
}
