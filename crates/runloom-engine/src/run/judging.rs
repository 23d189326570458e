//! Decisions of the process that drives the run, noted in the log, beside those of the spec's policies.

use runloom_protocol::policy::Decision;

use super::state::{Call, RunState};
use super::step::Step;
use crate::policy::Judgement;

/// The step that asks the call policy about calls that it has not judged; `None` when there are none.
pub(super) fn unjudged(state: &RunState, calls: &[&Call]) -> Option<Step> {
    if !state.plan.has_call_policy {
        return None;
    }
    let new = calls
        .iter()
        .filter(|call| !state.judged.contains_key(&call.id));
    let ids: Vec<String> = new.map(|call| call.id.clone()).collect();
    (!ids.is_empty()).then_some(Step::Judge(ids))
}

/// The stricter of a judgement and the noted decision about the call.
pub(super) fn with_call_policy(state: &RunState, call: &Call, own: Judgement) -> Judgement {
    match state.judged.get(&call.id) {
        Some((decision, reason)) => own.or_stricter(Judgement {
            decision: *decision,
            reason: reason.clone(),
            ..Judgement::allow()
        }),
        None => own,
    }
}

/// A noted decision and its reason.
pub(super) type NotedDecision = (Decision, Option<String>);
