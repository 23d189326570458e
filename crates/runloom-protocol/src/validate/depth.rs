//! How deep a document from outside may be nested.

use serde_json::Value;

use crate::limits::JSON_DEPTH_MAX;

/// True when no value lies deeper than [`JSON_DEPTH_MAX`] arrays and objects.
#[must_use]
pub fn fits_in_depth(value: &Value) -> bool {
    fits(value, JSON_DEPTH_MAX)
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|item| fits(item, levels - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_are_counted_in_arrays_and_objects() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([{"x": inner}]));
        assert!(fits_in_depth(&nested(JSON_DEPTH_MAX / 2)));
        assert!(!fits_in_depth(&json!([nested(JSON_DEPTH_MAX / 2)])));
        assert!(fits_in_depth(&json!("flat")));
    }
}
