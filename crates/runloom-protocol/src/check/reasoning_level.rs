//! `reasoningLevel`: a word or a number.

use crate::limits;
use crate::read::{Excerpt, Fields};

/// `off`, `low`, `medium` and `high` are anchors on the scale of 0–100.
pub(crate) fn reasoning_level(fields: &Fields<'_, '_>) -> Option<u8> {
    let node = fields.get("reasoningLevel")?;
    let Some(word) = node.value().as_str() else {
        return node.integer(0..=limits::REASONING_LEVEL_MAX);
    };
    match word {
        "off" => Some(0),
        "low" => Some(30),
        "medium" => Some(50),
        "high" => Some(80),
        _ => {
            let wanted = "expected `off`, `low`, `medium`, `high` or an integer from 0 to 100";
            node.refuse(format_args!("{wanted}, got `{}`", Excerpt(word)));
            None
        }
    }
}

/// `off`, `low`, `medium`, `high`, or a number from 0 to 100.
#[cfg(feature = "schema")]
pub(crate) struct ReasoningLevel;

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ReasoningLevel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ReasoningLevel".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "How much the model reasons: a number from 0 (off) to 100, or a word in requests.",
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": limits::REASONING_LEVEL_MAX},
                {"type": "string", "enum": ["off", "low", "medium", "high"]},
            ],
        })
    }
}
