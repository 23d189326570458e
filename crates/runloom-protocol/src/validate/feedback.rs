//! What somebody thinks of a run's answer.

use super::fields::Fields;
use super::issues::{Issues, Short};
use crate::limits;
use crate::spec::{SubmitFeedback, Verdict};

pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> SubmitFeedback {
    let text = |key, max, issues: &mut Issues| fields.text(key, max, issues).map(str::to_owned);
    SubmitFeedback {
        verdict: verdict(fields, issues).unwrap_or(Verdict::Up),
        explanation: text(
            "explanation",
            limits::FEEDBACK_EXPLANATION_MAX_CHARS,
            issues,
        ),
        content_snapshot: text(
            "contentSnapshot",
            limits::FEEDBACK_SNAPSHOT_MAX_CHARS,
            issues,
        ),
    }
}

fn verdict(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Verdict> {
    let word = fields.required_text("verdict", limits::REFERENCE_MAX_CHARS, issues)?;
    let verdict = Verdict::parse(word);
    if verdict.is_none() {
        let got = Short(word);
        fields.refuse(
            "verdict",
            format_args!("expected `UP` or `DOWN`, got `{got}`"),
            issues,
        );
    }
    verdict
}
