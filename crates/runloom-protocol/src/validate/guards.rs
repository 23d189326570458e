//! Budgets, depth and loop detection: the limits that end a long run.

use std::collections::BTreeMap;

pub(super) use crate::budgets::read as budgets;
use crate::check::unknown::UnknownFields;
use crate::limits;
use crate::read::Fields;
use crate::spec::{LoopDetection, ToolBudget};

const CONSECUTIVE: &str = "consecutiveThreshold";
const HARD: &str = "hardCutoffThreshold";

pub(super) fn loop_detection(
    fields: &Fields<'_, '_>,
    unknown: UnknownFields,
) -> Option<LoopDetection> {
    let node = fields.get("loopDetection")?;
    if node.value().as_bool() == Some(false) {
        return Some(LoopDetection::Off);
    }
    node.expect("`false` or an object", node.value().as_object())?;
    let fields = node.fields()?;
    let max = limits::LOOP_THRESHOLD_MAX;
    let consecutive = fields.integer(CONSECUTIVE, limits::LOOP_CONSECUTIVE_MIN..=max);
    let hard = fields.integer(HARD, limits::LOOP_HARD_MIN..=max);
    unknown.check_limits(&fields);
    let consecutive_default = limits::LOOP_CONSECUTIVE_DEFAULT;
    let hard_default = limits::LOOP_HARD_DEFAULT;
    // A default gives way to the threshold that the client named, so that one number alone is never a contradiction.
    let (consecutive, hard) = match (consecutive, hard) {
        (Some(consecutive), Some(hard)) => {
            if hard <= consecutive {
                let message =
                    format!("must be greater than `{CONSECUTIVE}` ({consecutive}), got {hard}");
                fields.refuse(HARD, message);
            }
            (consecutive, hard)
        }
        (Some(consecutive), None) => (consecutive, hard_default.max(consecutive + 1)),
        (None, Some(hard)) => (consecutive_default.min(hard - 1), hard),
        (None, None) => (consecutive_default, hard_default),
    };
    Some(LoopDetection::On { consecutive, hard })
}

pub(super) fn tool_budgets(
    fields: &Fields<'_, '_>,
    unknown: UnknownFields,
) -> Option<BTreeMap<String, ToolBudget>> {
    let node = fields.get("toolBudgets")?;
    let tools = node.fields()?;
    node.has_entries_within(tools.object().len(), limits::TOOL_BUDGETS_MAX);
    let mut budgets = BTreeMap::new();
    for (name, node) in tools.entries() {
        if name.is_empty() {
            node.refuse("the name of a tool must not be empty");
        }
        node.has_chars_within(name, limits::TOOL_BUDGET_NAME_MAX_CHARS);
        let Some(fields) = node.fields() else {
            continue;
        };
        let max_calls = fields
            .require("maxCalls")
            .and_then(|node| node.integer(0..=limits::TOOL_BUDGET_CALLS_MAX));
        unknown.check(&fields);
        if let Some(max_calls) = max_calls {
            budgets.insert(name.to_owned(), ToolBudget { max_calls });
        }
    }
    Some(budgets)
}

/// Levels of runs below a run.
pub(super) fn max_depth(fields: &Fields<'_, '_>) -> Option<u8> {
    fields.integer("maxDepth", 0..=limits::MAX_DEPTH_MAX)
}
