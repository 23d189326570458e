//! Budgets and loop detection: what stops a run that goes on for too long.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Fields, expect, within_chars, within_count};
use super::issues::Issues;
use crate::limits;
use crate::spec::{Budgets, LoopDetection, ToolBudget};

/// Every field of `budgets`.
pub(super) const BUDGETS: [&str; 4] =
    ["maxToolTurns", "maxWallMs", "maxOutputTokens", "maxCostUsd"];

/// Every field of `loopDetection`.
pub(super) const LOOP_DETECTION: [&str; 2] = [SOFT, HARD];

const SOFT: &str = "consecutiveThreshold";
const HARD: &str = "hardCutoffThreshold";

/// Refuses every unknown field: who keeps a definition is told at once, and no older or newer SDK sends it with each run.
pub(super) fn refuse_unknown(fields: &Fields<'_, '_>, issues: &mut Issues) {
    for (key, known) in [
        ("budgets", &BUDGETS[..]),
        ("loopDetection", &LOOP_DETECTION),
    ] {
        if let Some(Value::Object(object)) = fields.get(key) {
            Fields::new(object, &fields.path.key(key)).only(known, issues);
        }
    }
    if let Some(Value::Object(tools)) = fields.get("toolBudgets") {
        let path = fields.path.key("toolBudgets");
        for (name, value) in tools {
            if let Value::Object(object) = value {
                Fields::new(object, &path.key(name)).only(&["maxCalls"], issues);
            }
        }
    }
}

pub(super) fn budgets(fields: &Fields<'_, '_>, issues: &mut Issues) -> Budgets {
    let Some(object) = fields.object("budgets", issues) else {
        return Budgets::default();
    };
    let path = fields.path.key("budgets");
    let fields = Fields::new(object, &path);
    fields.refuse_slips(&BUDGETS, issues);
    let turns = limits::MAX_TOOL_TURNS_MIN..=limits::MAX_TOOL_TURNS_MAX;
    Budgets {
        max_tool_turns: fields.small("maxToolTurns", turns, issues),
        max_wall_ms: fields.integer("maxWallMs", 1..=limits::INTEGER_MAX, issues),
        max_output_tokens: fields.integer("maxOutputTokens", 1..=limits::INTEGER_MAX, issues),
        max_cost_usd: max_cost(&fields, issues),
    }
}

fn max_cost(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<f64> {
    let value = fields.get("maxCostUsd")?;
    let path = fields.path.key("maxCostUsd");
    let cost = expect(
        value.as_f64(),
        value,
        &path,
        "a number greater than 0",
        issues,
    )?;
    if !(cost.is_finite() && cost > 0.0) {
        issues.add(
            &path,
            format_args!("expected a number greater than 0, got {value}"),
        );
        return None;
    }
    Some(cost)
}

pub(super) fn loop_detection(
    fields: &Fields<'_, '_>,
    issues: &mut Issues,
) -> Option<LoopDetection> {
    let value = fields.get("loopDetection")?;
    let path = fields.path.key("loopDetection");
    if value.as_bool() == Some(false) {
        return Some(LoopDetection::Off);
    }
    let object = expect(
        value.as_object(),
        value,
        &path,
        "`false` or an object",
        issues,
    )?;
    let fields = Fields::new(object, &path);
    fields.refuse_slips(&LOOP_DETECTION, issues);
    let max = limits::LOOP_THRESHOLD_MAX;
    let (soft_key, hard_key) = (SOFT, HARD);
    let soft = fields.small(soft_key, limits::LOOP_CONSECUTIVE_MIN..=max, issues);
    let hard = fields.small(hard_key, limits::LOOP_HARD_MIN..=max, issues);
    let soft_default = limits::LOOP_CONSECUTIVE_DEFAULT;
    let hard_default = limits::LOOP_HARD_DEFAULT;
    // The threshold that the client did not name gives way, so that one number alone is never a contradiction.
    let (consecutive, hard) = match (soft, hard) {
        (Some(soft), Some(hard)) => {
            if hard <= soft {
                let message = format!("must be greater than `{soft_key}` ({soft}), got {hard}");
                fields.refuse(hard_key, message, issues);
            }
            (soft, hard)
        }
        (Some(soft), None) => (soft, hard_default.max(soft + 1)),
        (None, Some(hard)) => (soft_default.min(hard - 1), hard),
        (None, None) => (soft_default, hard_default),
    };
    Some(LoopDetection::On { consecutive, hard })
}

pub(super) fn tool_budgets(
    fields: &Fields<'_, '_>,
    issues: &mut Issues,
) -> Option<BTreeMap<String, ToolBudget>> {
    let object = fields.object("toolBudgets", issues)?;
    let path = fields.path.key("toolBudgets");
    within_count(object.len(), limits::TOOL_BUDGETS_MAX, &path, issues);
    let mut budgets = BTreeMap::new();
    for (name, value) in object {
        let path = path.key(name);
        if name.is_empty() {
            issues.add(&path, "the name of a tool must not be empty");
        }
        within_chars(name, limits::TOOL_BUDGET_NAME_MAX_CHARS, &path, issues);
        let Some(fields) = Fields::of(value, &path, issues) else {
            continue;
        };
        if fields.require("maxCalls", issues).is_none() {
            continue;
        }
        if let Some(max_calls) = fields.small("maxCalls", 0..=limits::TOOL_BUDGET_CALLS_MAX, issues)
        {
            budgets.insert(name.clone(), ToolBudget { max_calls });
        }
    }
    Some(budgets)
}
