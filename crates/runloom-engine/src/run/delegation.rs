//! Delegates: calls that start runs, calls that are refused, ends of children, and the totals of a tree.

use std::sync::Arc;

use runloom_protocol::event::{Subagent, SubagentPhase};
use runloom_protocol::id::RunId;
use runloom_protocol::limits;
use runloom_protocol::outcome::{SubagentUsage, Tokens};
use runloom_protocol::tools::DelegateRef;
use serde_json::{Value, json};

use super::state::{Call, CallState, RunState};
use super::step::Step;
use crate::derived_ids::run_span;
use crate::toolbox::{Tool, ToolKind};
use runloom_ports::store::{SubRunEnded, SubRunOutcome, TreeUsage};

/// Maximum live children of a run.
pub const SUB_RUNS_AT_ONCE: usize = 8;

/// Position of a run in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePlace {
    /// 0 for a root.
    pub depth: u32,
    /// Levels of runs that it may have below it.
    pub levels: u8,
    /// Runs below the root when this run was created, as far as its parent knew.
    pub known_below: u32,
    /// Runs that a root may have below it.
    pub max_sub_runs: u32,
}

impl Default for TreePlace {
    fn default() -> Self {
        Self {
            depth: 0,
            levels: limits::MAX_DEPTH_DEFAULT,
            known_below: 0,
            max_sub_runs: 64,
        }
    }
}

/// A cancelled run that waits for the runs below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// Reason of the cancel.
    pub reason: String,
    /// When it was accepted (RFC 3339).
    pub requested_at: Option<String>,
    /// Names of the interrupted tools.
    pub interrupted: Vec<String>,
}

/// A call that starts a child.
#[derive(Debug, Clone, PartialEq)]
pub struct DelegateCall {
    /// `tu_…`.
    pub id: String,
    /// The delegate.
    pub delegate: Arc<DelegateRef>,
    /// Arguments.
    pub input: Value,
}

impl DelegateCall {
    /// The child's only message.
    #[must_use]
    pub fn prompt(&self) -> &str {
        self.input["prompt"].as_str().unwrap_or_default()
    }
}

/// The effect of a child's end on the call of its parent.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedCall {
    /// Name of the delegate.
    pub name: String,
    /// The event for the parent and all its ancestors.
    pub event: Subagent,
    /// The result that the model reads.
    pub content: String,
    /// The child did not succeed.
    pub is_error: bool,
}

/// Starts delegates while there is room, then waits for children; `None` when the turn has neither.
pub(super) fn next_of_delegates(state: &RunState, new: &[&Call]) -> Option<Step> {
    let running = state.live_sub_runs().count();
    let waiting = new.iter().filter_map(|call| {
        let delegate = delegate_of(state.toolbox.get(&call.name)?)?;
        Some(DelegateCall {
            id: call.id.clone(),
            delegate: Arc::clone(delegate),
            input: call.input.clone(),
        })
    });
    let room = SUB_RUNS_AT_ONCE.saturating_sub(running);
    let starting: Vec<DelegateCall> = waiting.take(room).collect();
    if !starting.is_empty() {
        return Some(Step::Delegate(starting));
    }
    (running > 0).then_some(Step::AwaitSubRuns)
}

/// The reason why a call of a delegate starts no run. `started`: earlier calls of the same turn that start one.
pub(super) fn refusal(state: &RunState, tool: &Tool, started: &mut u32) -> Option<String> {
    let delegate = delegate_of(tool)?;
    let place = &state.plan.place;
    if place.levels == 0 {
        let message = format!(
            "{} cannot be called: this run may have no runs below it. Do the task without it.",
            delegate.name
        );
        return Some(json!({"error": "max_depth", "message": message}).to_string());
    }
    if state.known_below().saturating_add(*started) >= place.max_sub_runs {
        return Some(too_many(place.max_sub_runs));
    }
    *started += 1;
    None
}

/// The result of a call that would exceed the number of runs.
#[must_use]
pub fn too_many(max_sub_runs: u32) -> String {
    let message = format!(
        "The tree of this run may have {max_sub_runs} runs below its root, and has them. Do the task without delegates."
    );
    json!({"error": "too_many_sub_runs", "message": message}).to_string()
}

/// The result of a call whose run failed or could not be started.
#[must_use]
pub fn sub_run_failed(run: &RunId, error_class: &str, message: &str) -> String {
    json!({
        "error": "subagent_failed",
        "errorClass": error_class,
        "message": message,
        "runId": run,
    })
    .to_string()
}

fn delegate_of(tool: &Tool) -> Option<&Arc<DelegateRef>> {
    match &tool.kind {
        ToolKind::Delegate(delegate) => Some(delegate),
        _ => None,
    }
}

impl RunState {
    pub(super) fn apply_subagent(&mut self, below: &Subagent) {
        match below.phase {
            SubagentPhase::Start => {
                self.sub_runs = self.sub_runs.saturating_add(1);
                if below.parent_run_id == self.plan.run {
                    self.set(&below.tool_use_id, CallState::Delegated);
                }
            }
            SubagentPhase::Paused => {}
            // The end of a run is the end of its approvals.
            SubagentPhase::Completed | SubagentPhase::Errored => {
                self.approvals_below.retain(|_, run| *run != below.run_id);
            }
        }
    }

    /// Calls with live children known to this run.
    pub fn live_sub_runs(&self) -> impl Iterator<Item = &Call> {
        let live = |call: &&Call| call.state == CallState::Delegated;
        self.calls.iter().filter(live)
    }

    /// Number of runs below the root known to this run.
    #[must_use]
    pub fn known_below(&self) -> u32 {
        self.plan.place.known_below.saturating_add(self.sub_runs)
    }

    /// The `start` event of a child of this run.
    #[must_use]
    pub fn sub_run_started(&self, call: &DelegateCall, child: &RunId, model_id: &str) -> Subagent {
        Subagent {
            model_id: Some(model_id.to_owned()),
            ..self.subagent(SubagentPhase::Start, &call.delegate.name, &call.id, child)
        }
    }

    /// The effect of a child's end; `None` when no call waits for it.
    #[must_use]
    pub fn sub_run_ended(&self, end: &SubRunEnded) -> Option<EndedCall> {
        let call = self
            .live_sub_runs()
            .find(|call| call.id == end.tool_use_id)?;
        let phase = match end.outcome {
            SubRunOutcome::Completed(_) => SubagentPhase::Completed,
            SubRunOutcome::Errored { .. } => SubagentPhase::Errored,
        };
        let mut event = self.subagent(phase, &call.name, &call.id, &end.run_id);
        event.tokens = Some(end.usage.tokens);
        event.turns = Some(end.usage.turns);
        event.model = Some(end.model.clone());
        event.cost_usd = end.usage.cost_pico.map(usd);
        let (content, is_error) = match &end.outcome {
            SubRunOutcome::Completed(text) => (text.clone(), false),
            SubRunOutcome::Errored {
                message,
                error_class,
            } => {
                event.error = Some(message.clone());
                event.error_class = Some(error_class.clone());
                (sub_run_failed(&end.run_id, error_class, message), true)
            }
        };
        Some(EndedCall {
            name: call.name.clone(),
            event,
            content,
            is_error,
        })
    }

    /// The `paused` event of this run, which is a child of `parent`.
    #[must_use]
    pub fn paused(&self, parent: &RunId, name: &str, call: &str) -> Subagent {
        let run = &self.plan.run;
        Subagent {
            parent_run_id: parent.clone(),
            depth: self.plan.place.depth,
            parent_span_id: run_span(parent).to_string(),
            ..self.subagent(SubagentPhase::Paused, name, call, run)
        }
    }

    fn subagent(&self, phase: SubagentPhase, name: &str, call: &str, child: &RunId) -> Subagent {
        Subagent {
            phase,
            name: name.to_owned(),
            tool_use_id: call.to_owned(),
            run_id: child.clone(),
            parent_run_id: self.plan.run.clone(),
            depth: self.plan.place.depth.saturating_add(1),
            span_id: run_span(child).to_string(),
            parent_span_id: run_span(&self.plan.run).to_string(),
            model_id: None,
            approval_ids: Vec::new(),
            error: None,
            error_class: None,
            tokens: None,
            turns: None,
            model: None,
            cost_usd: None,
        }
    }

    /// The share of the totals used by runs below; `None` while none has ended.
    #[must_use]
    pub fn usage_below(&self) -> Option<SubagentUsage> {
        (self.below.runs > 0).then(|| SubagentUsage {
            runs: self.below.runs,
            tokens: self.below.tokens,
            turns: self.below.turns,
            cost_usd: self.below.cost_pico.map(usd),
        })
    }

    /// These tokens of the run itself, and those of all runs below that have ended.
    pub(super) fn with_below(&self, own: Tokens) -> Tokens {
        let mut sum = own;
        sum.add(&self.below.tokens);
        sum
    }

    /// The usage of the run and all runs below it. `own`: tokens and turns of the run itself.
    #[must_use]
    pub fn tree_usage(&self, own: Tokens, turns: u32) -> TreeUsage {
        let cost = self.cost_pico(&own);
        let mut usage = TreeUsage {
            runs: 1,
            tokens: own,
            turns,
            cost_pico: cost.map(|pico| u64::try_from(pico).unwrap_or(u64::MAX)),
            spent_micro: self.own_spent().0,
        };
        usage.add(&self.below);
        usage
    }
}

fn usd(pico: u64) -> f64 {
    pico as f64 / 1e12
}
