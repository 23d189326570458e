//! Feedback on a run.

use crate::limits;
use crate::read::{Fields, Keyword};
use crate::spec::{SubmitFeedback, Verdict};

impl Keyword for Verdict {
    const ALL: &'static [Self] = &[Self::Up, Self::Down];

    fn word(self) -> &'static str {
        self.as_str()
    }
}

pub(super) fn read(fields: &Fields<'_, '_>) -> SubmitFeedback {
    let text = |key, max| fields.text(key, max).map(str::to_owned);
    let verdict = fields.require("verdict").and_then(|node| node.keyword());
    SubmitFeedback {
        verdict: verdict.unwrap_or(Verdict::Up),
        explanation: text("explanation", limits::FEEDBACK_EXPLANATION_MAX_CHARS),
        content_snapshot: text("contentSnapshot", limits::FEEDBACK_SNAPSHOT_MAX_CHARS),
    }
}
