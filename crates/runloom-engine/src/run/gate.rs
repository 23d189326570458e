//! The gate of policies: denies calls of a turn, or asks a person, before any call is executed.

use runloom_protocol::event::{ApprovalRequested, Event};
use runloom_protocol::limits::APPROVALS_PENDING_MAX;
use runloom_protocol::policy::Decision;
use serde_json::json;

use super::approval::{ApprovalAsk, approval_id};
use super::judging;
use super::state::{Call, RunState};
use super::step::{Step, synthetic};
use crate::policy::{Action, Judgement, judge};

/// The step before the execution of calls; `None` when every call may be executed. Guards and schemas were checked
/// before.
pub(super) fn gate(state: &RunState, calls: &[&Call]) -> Option<Step> {
    if let Some(step) = judging::unjudged(state, calls) {
        return Some(step);
    }
    let mut refused = Vec::new();
    let mut asks = Vec::new();
    for call in calls {
        let judgement = judge_call(state, call);
        match judgement.decision {
            Decision::Allow => {}
            Decision::Deny => refused.push(denied(call, &judgement)),
            Decision::Ask if asks.len() == APPROVALS_PENDING_MAX => refused.push(too_many(call)),
            Decision::Ask => asks.push(ask(state, call, judgement)),
        }
    }
    if !refused.is_empty() {
        return Some(Step::Write(refused));
    }
    (!asks.is_empty()).then_some(Step::RequestApprovals(asks))
}

fn judge_call(state: &RunState, call: &Call) -> Judgement {
    let Some(tool) = state.toolbox.get(&call.name) else {
        return Judgement::allow();
    };
    let policies = state.plan.policies.iter().chain(tool.policy.as_deref());
    let action = Action {
        tool: &call.name,
        sub_action: None,
        effect: tool.call_effect(),
        hints: tool.hints(),
        input: &call.input,
    };
    let judged = judge(policies, &action);
    judging::with_call_policy(state, call, judged)
}

fn denied(call: &Call, judgement: &Judgement) -> Event {
    let reason = judgement.reason.as_deref();
    let text = json!({
        "error": "denied_by_policy",
        "rule": judgement.rule,
        "message": reason.unwrap_or("A policy denies this call. It was not executed."),
    });
    synthetic(call, &text.to_string())
}

fn too_many(call: &Call) -> Event {
    let message = format!(
        "At most {APPROVALS_PENDING_MAX} calls can wait for approval at once. This one was not executed."
    );
    let text = json!({"error": "too_many_approvals", "message": message});
    synthetic(call, &text.to_string())
}

fn ask(state: &RunState, call: &Call, judgement: Judgement) -> ApprovalAsk {
    let tool = state.toolbox.get(&call.name);
    let request = ApprovalRequested {
        approval_id: approval_id(&state.plan.run, &call.id),
        run_id: state.plan.run.clone(),
        depth: state.plan.place.depth,
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
        effect: tool.map_or(runloom_protocol::policy::CallEffect::Once, |tool| {
            tool.call_effect()
        }),
        annotations: tool.and_then(|tool| tool.annotations()),
        rule: judgement.rule,
        reason: judgement.reason,
        sub_actions: Vec::new(),
        expires_at: String::new(),
    };
    ApprovalAsk {
        request,
        timeout_ms: judgement.timeout_ms,
        approver: judgement.approver,
    }
}
