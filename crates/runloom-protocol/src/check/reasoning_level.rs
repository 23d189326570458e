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
