//! Fields that nobody reads. Those of newer SDKs are welcome, so most are only told of; one that is a slip of a field we know is
//! refused inside limits, because whoever wrote it believes to be protected.

use serde_json::Value;

use super::fields::Fields;
use super::issues::{Issues, Short};
use super::{guards, spec};

/// The longest name that is compared; longer ones are no slips of ours.
const COMPARED_MAX_BYTES: usize = 40;

/// Letters that a slip may change, add or leave out.
const SLIPS: usize = 2;

/// Unknown names of one object that are compared: a body of nothing else is no slip.
const COMPARED_MAX: usize = 64;

/// Remarks at most: a body of nothing but unknown fields needs no list of them all.
const REMARKS_MAX: usize = 20;

/// The known name that a misspelt one was meant to be. `max_cost_usd` is a slip of `maxCostUsd`, too.
pub(super) fn meant<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > COMPARED_MAX_BYTES {
        return None;
    }
    let letters = |name: &str| -> Vec<char> {
        let plain = name.chars().filter(|letter| !matches!(letter, '_' | '-'));
        plain.flat_map(char::to_lowercase).collect()
    };
    let given = letters(name);
    let near = known
        .iter()
        .map(|known| (distance(&given, &letters(known)), *known));
    near.filter(|(slips, _)| *slips <= SLIPS)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, known)| known)
}

/// Levenshtein's distance.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, one) in left.iter().enumerate() {
        let mut corner = index;
        row[0] = index + 1;
        for (place, other) in right.iter().enumerate() {
            let changed = corner + usize::from(one != other);
            corner = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(corner + 1);
        }
    }
    row[right.len()]
}

/// What of a run's body nobody reads, in words for whoever wrote it.
pub(super) fn remarks(body: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    unread("", body, &spec::FIELDS_OF_RUNS, &mut remarks);
    unread("budgets.", &body["budgets"], &guards::BUDGETS, &mut remarks);
    unread(
        "loopDetection.",
        &body["loopDetection"],
        &guards::LOOP_DETECTION,
        &mut remarks,
    );
    remarks
}

fn unread(place: &str, value: &Value, known: &[&str], remarks: &mut Vec<String>) {
    let names = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys());
    let unknown = names.filter(|name| !known.contains(&name.as_str()));
    for name in unknown.take(REMARKS_MAX.saturating_sub(remarks.len())) {
        let hint = match meant(name, known) {
            Some(known) => format!("; did you mean `{place}{known}`?"),
            None => String::new(),
        };
        remarks.push(format!(
            "`{place}{}` is not read by this server{hint}",
            Short(name)
        ));
    }
}

impl Fields<'_, '_> {
    /// Adds an issue for every field that is a slip of one among `known`.
    pub(super) fn refuse_slips(&self, known: &[&str], issues: &mut Issues) {
        let unknown = self.names().filter(|name| !known.contains(name));
        for name in unknown.take(COMPARED_MAX) {
            if let Some(known) = meant(name, known) {
                let message = format_args!("unknown field; did you mean `{known}`?");
                self.refuse(name, message, issues);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = guards::BUDGETS;
        for (slip, name) in [
            ("maxCostUSD", "maxCostUsd"),
            ("max_cost_usd", "maxCostUsd"),
            ("maxToolTurn", "maxToolTurns"),
            ("maxWalMs", "maxWallMs"),
            ("MaxOutputToken", "maxOutputTokens"),
        ] {
            assert_eq!(meant(slip, &known), Some(name), "{slip}");
        }
        for other in ["maxTurns", "maxInputTokens", "cost", "", &"max".repeat(40)] {
            assert_eq!(meant(other, &known), None, "{other}");
        }
    }

    #[test]
    fn what_nobody_reads_is_told_in_bounded_words() {
        let body = json!({
            "prompt": "x", "metdata": {}, "supervisor": true, "budgets": {"maxSteps": 3}, "loopDetection": false,
        });
        assert_eq!(
            remarks(&body),
            [
                "`metdata` is not read by this server; did you mean `metadata`?",
                "`supervisor` is not read by this server",
                "`budgets.maxSteps` is not read by this server",
            ]
        );
        let many: serde_json::Map<_, _> =
            (0..100).map(|n| (format!("field {n}"), json!(1))).collect();
        assert_eq!(remarks(&Value::Object(many)).len(), REMARKS_MAX);
    }
}
