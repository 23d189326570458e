//! The decisions: from the state of a run to its next step.

use std::sync::Arc;

use runloom_protocol::event::{
    Event, LocalToolCall, LocalToolResultIn, LoopDetected, Started, ToolResult, TurnRestarted,
};
use runloom_protocol::outcome::{ErrorClass, finish_reason};
use runloom_protocol::spec::{Enforcement, ToolAnswer};
use serde_json::{Value, json};

use super::approval::{self, ApprovalAsk};
use super::compaction::CompactStep;
use super::delegation::{self, DelegateCall};
use super::ending::{Spent, failed, succeeded};
use super::fallback::lacks_strict_schema;
use super::gate::gate;
use super::guard::{self, Verdict};
use super::money::Bid;
use super::refusal::refuse;
use super::state::{Answer, Call, CallState, RunState};
use crate::toolbox::Tool;
use runloom_ports::effect::Effect;
use runloom_ports::model::ModelError;
use runloom_ports::tools::ServerTool;

/// The result of a call that the client did not answer in time.
pub const TIMED_OUT: &str = "Timed out waiting for local tool result";

/// Restarts of one turn after which the run fails, because the turn probably crashes its worker.
const MAX_RESTARTS: u32 = 5;

/// The next step of a run.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the last step of a run"
)]
pub enum Step {
    /// Write these events: they follow from the state alone.
    Write(Vec<Event>),
    /// Write these calls, each with a deadline, and open them for the client's answers.
    Ask(Vec<LocalToolCall>),
    /// Write these requests, each with a time limit, and open them for a person's decision.
    RequestApprovals(Vec<ApprovalAsk>),
    /// Ask the call policy of the process about the calls with these ids, and note its decisions.
    Judge(Vec<String>),
    /// Ask the peers of the server-resolved tools for their tools, and note the answer.
    ResolveTools,
    /// Execute these calls on the server, concurrently.
    Execute(Vec<ServerCall>),
    /// Start a child for each of these calls.
    Delegate(Vec<DelegateCall>),
    /// Wait until a child ends.
    AwaitSubRuns,
    /// Wait until a client answers or a person decides, or the first deadline.
    Wait {
        /// In milliseconds since the Unix epoch.
        deadline: i64,
    },
    /// Ask for a summary of the older turns.
    Compact(CompactStep),
    /// Call the model.
    CallModel(CallPlan),
    /// Note that money runs out, and why: the next turn is the last.
    Economise(String),
    /// Write this terminal event.
    Finish(Event),
    /// The run is over.
    Over,
}

/// A call that the server executes.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerCall {
    /// `tu_…`.
    pub id: String,
    /// The tool to execute.
    pub tool: Arc<ServerTool>,
    /// Arguments.
    pub input: Value,
    /// Its `tool_call` is in the log: this is a repetition after an interruption, which the tool's effect allows.
    pub again: bool,
}

/// How the model is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlan {
    /// Number of the turn, 1-based.
    pub turn: u32,
    /// False on a finalise turn.
    pub tools_enabled: bool,
    /// The hidden output tool is forced.
    pub force_output: bool,
    /// Maximum output tokens under the remaining budgets.
    pub max_output_tokens: Option<u64>,
    /// The worst-case cost, if a money limit applies.
    pub bid: Option<Bid>,
}

/// Decides the next step of a run.
#[must_use]
pub fn next(state: &RunState) -> Step {
    if state.ended {
        return Step::Over;
    }
    if !state.started {
        return Step::Write(vec![Event::Started(Started {})]);
    }
    if state.shown && state.restarts >= MAX_RESTARTS {
        let message = format!("the turn was called again {MAX_RESTARTS} times and never completed");
        let error = ModelError::new(ErrorClass::Server, message);
        let spent = Spent {
            turns: 1,
            ..Spent::default()
        };
        return Step::Finish(failed(state, &error, &spent));
    }
    if state.shown {
        let reason = "the attempt was interrupted; discard its deltas".to_owned();
        return Step::Write(vec![Event::TurnRestarted(TurnRestarted {
            turn: state.turns,
            reason,
        })]);
    }
    if !state.calls.is_empty() {
        return next_of_tools(state);
    }
    match &state.answer {
        Some(answer) => next_of_answer(state, answer),
        None if !state.resolved => Step::ResolveTools,
        None => call_model(state, OutputTool::Optional),
    }
}

/// The event for a client's answer; `None` when no such call waits.
#[must_use]
pub fn answer(state: &RunState, tool_use_id: &str, answer: &ToolAnswer) -> Option<Event> {
    let waits =
        |call: &&Call| call.id == tool_use_id && matches!(call.state, CallState::Asked { .. });
    let call = state.calls.iter().find(waits)?;
    let (output, error) = match answer {
        ToolAnswer::Result(text) => (Some(text.clone()), None),
        ToolAnswer::Error(text) => (None, Some(text.clone())),
    };
    Some(Event::LocalToolResultIn(LocalToolResultIn {
        tool_use_id: call.id.clone(),
        output,
        error,
    }))
}

/// The events for calls whose deadline has passed without an answer or a decision.
#[must_use]
pub fn expire(state: &RunState, now: i64) -> Vec<Event> {
    let late =
        |call: &&Call| matches!(call.state, CallState::Asked { deadline } if deadline <= now);
    let unanswered = state.calls.iter().filter(late).map(|call| {
        Event::LocalToolResultIn(LocalToolResultIn {
            tool_use_id: call.id.clone(),
            output: None,
            error: Some(TIMED_OUT.to_owned()),
        })
    });
    let undecided = state.calls.iter();
    unanswered
        .chain(undecided.filter_map(|call| approval::expired(state, call, now)))
        .collect()
}

fn next_of_tools(state: &RunState) -> Step {
    let refused = state.calls.iter().filter_map(|call| match &call.state {
        CallState::Refused { text } => Some(synthetic(call, text)),
        _ => None,
    });
    let refused: Vec<Event> = refused.collect();
    if !refused.is_empty() {
        return Step::Write(refused);
    }
    let deadline = state
        .calls
        .iter()
        .filter_map(|call| match call.state {
            CallState::Asked { deadline } | CallState::Pending { deadline, .. } => Some(deadline),
            _ => None,
        })
        .min();
    if let Some(deadline) = deadline {
        return Step::Wait { deadline };
    }
    let in_state = |wanted: CallState| state.calls.iter().filter(move |call| call.state == wanted);
    let interrupted: Vec<&Call> = in_state(CallState::Called).collect();
    if !interrupted.is_empty() {
        return go_on(state, &interrupted);
    }
    let new: Vec<&Call> = in_state(CallState::New).collect();
    let verdict = state.guards.verdict(state.plan.loop_detection);
    if verdict != Verdict::Fine {
        return Step::Write(skip_loop(state, &new, verdict));
    }
    let refused = refuse(state, &new);
    if !refused.is_empty() {
        return Step::Write(refused);
    }
    if let Some(step) = gate(state, &new) {
        return step;
    }
    let ready = |call: &&Call| matches!(call.state, CallState::New | CallState::Approved);
    let ready: Vec<&Call> = state.calls.iter().filter(ready).collect();
    start(state, &ready)
}

/// Server calls that were in flight when the run was interrupted: repeated if their effect allows, otherwise given
/// up.
fn go_on(state: &RunState, interrupted: &[&Call]) -> Step {
    let harmless = |call: &Call| {
        state
            .toolbox
            .get(&call.name)
            .is_some_and(|tool| tool.effect_of(&call.input) != Effect::Once)
    };
    let text = json!({
        "error": "outcome_unknown",
        "message": "The server was interrupted while this tool ran. It may or may not have taken effect, and it was not \
                    repeated. Find out before you call it again.",
    })
    .to_string();
    let unknown: Vec<Event> = interrupted
        .iter()
        .filter(|call| !harmless(call))
        .map(|call| synthetic(call, &text))
        .collect();
    if unknown.is_empty() {
        Step::Execute(
            interrupted
                .iter()
                .filter_map(|call| server_call(state, call))
                .map(|call| ServerCall {
                    again: true,
                    ..call
                })
                .collect(),
        )
    } else {
        Step::Write(unknown)
    }
}

/// Read-only calls of a turn start together, first those of the client, then those of the server; then delegates; the
/// others one at a time, in the model's order.
fn start(state: &RunState, ready: &[&Call]) -> Step {
    let tool_of = |call: &Call| state.toolbox.get(&call.name);
    let ask =
        |call: &&Call| tool_of(call).map(|tool| tool.local_call(&call.id, call.input.clone()));
    let (reading, acting): (Vec<&Call>, Vec<&Call>) = ready
        .iter()
        .partition(|call| tool_of(call).is_some_and(|tool| tool.is_read_only(&call.input)));
    if reading.is_empty()
        && let Some(step) = delegation::next_of_delegates(state, ready)
    {
        return step;
    }
    let group: Vec<&Call> = if reading.is_empty() {
        acting.into_iter().take(1).collect()
    } else {
        reading
    };
    let (client, server): (Vec<&Call>, Vec<&Call>) = group
        .into_iter()
        .partition(|call| tool_of(call).is_none_or(Tool::is_client));
    if client.is_empty() {
        Step::Execute(
            server
                .into_iter()
                .filter_map(|call| server_call(state, call))
                .collect(),
        )
    } else {
        Step::Ask(client.iter().filter_map(ask).collect())
    }
}

fn server_call(state: &RunState, call: &Call) -> Option<ServerCall> {
    let tool = Arc::clone(state.toolbox.get(&call.name)?.server()?);
    Some(ServerCall {
        id: call.id.clone(),
        tool,
        input: call.input.clone(),
        again: false,
    })
}

fn skip_loop(state: &RunState, calls: &[&Call], verdict: Verdict) -> Vec<Event> {
    let mut events: Vec<Event> = calls
        .iter()
        .map(|call| synthetic(call, guard::REPEATED))
        .collect();
    let hard_cutoff = verdict == Verdict::Stuck;
    if hard_cutoff || !state.guards.soft_told {
        let mut tools: Vec<String> = state.calls.iter().map(|call| call.name.clone()).collect();
        tools.sort_unstable();
        tools.dedup();
        let consecutive_count = state.guards.streak;
        events.push(Event::LoopDetected(LoopDetected {
            consecutive_count,
            hard_cutoff,
            tools,
        }));
    }
    events
}

/// A result that no tool gave.
pub(super) fn synthetic(call: &Call, text: &str) -> Event {
    Event::ToolResult(ToolResult {
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        ok: false,
        result: text.to_owned(),
        summary: summary_of(text),
        metadata: None,
        duration_ms: None,
    })
}

/// The first line, cut to the length of a summary.
fn summary_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(160).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// Whether the model must answer through the hidden output tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputTool {
    Optional,
    Forced,
}

fn call_model(state: &RunState, output_tool: OutputTool) -> Step {
    let exceeded = |message: String| {
        let error = ModelError::new(ErrorClass::BudgetExceeded, message);
        Step::Finish(failed(state, &error, &Spent::default()))
    };
    if let Some(step) = state.compaction() {
        return Step::Compact(step);
    }
    let left = state.output_bound();
    if left == Some(0) {
        let turns = state.turns;
        return exceeded(format!(
            "budgets.maxOutputTokens is used up after {turns} turns"
        ));
    }
    if let Some(refusal) = schema_unsupported(state) {
        return Step::Finish(failed(state, &refusal, &Spent::default()));
    }
    let call = CallPlan {
        turn: state.turns + 1,
        tools_enabled: !state.must_finalise(),
        force_output: output_tool == OutputTool::Forced,
        max_output_tokens: left,
        bid: None,
    };
    let Some(mut bid) = state.bid() else {
        return Step::CallModel(call);
    };
    match state.within_cap(&bid) {
        Ok(output) => {
            bid.most = output;
            Step::CallModel(CallPlan {
                max_output_tokens: Some(output),
                bid: Some(bid),
                ..call
            })
        }
        Err(reason) if state.economising.is_none() => Step::Economise(reason),
        Err(reason) => exceeded(reason),
    }
}

fn schema_unsupported(state: &RunState) -> Option<ModelError> {
    lacks_strict_schema(&state.plan, state.current_model()).then(|| {
        ModelError::new(
            ErrorClass::StructuredOutputNotSupported,
            format!(
                "the model {} cannot enforce an output schema, and enforcement is strict",
                state.current_model().model.id
            ),
        )
    })
}

fn next_of_answer(state: &RunState, answer: &Answer) -> Step {
    let fail = |class, message: String| {
        let mut error = ModelError::new(class, message);
        error.finish_reason = Some(answer.finish_reason.clone());
        let spent = Spent {
            partial_text: Some(answer.text.clone()),
            ..Spent::default()
        };
        Step::Finish(failed(state, &error, &spent))
    };
    match answer.finish_reason.as_str() {
        finish_reason::MAX_TOKENS => {
            return fail(
                ErrorClass::Truncation,
                "the output budget ran out in the middle of the answer".to_owned(),
            );
        }
        finish_reason::MALFORMED_FUNCTION_CALL => {
            return fail(
                ErrorClass::Unknown,
                "the model made a malformed function call twice".to_owned(),
            );
        }
        finish_reason::CONTENT_FILTER => {
            return fail(
                ErrorClass::Unknown,
                "a content filter of the provider cut the answer".to_owned(),
            );
        }
        finish_reason::REFUSAL if answer.text.is_empty() => {
            return fail(
                ErrorClass::Unknown,
                "the model refused to answer".to_owned(),
            );
        }
        _ => {}
    }
    let Some((schema, validator)) = &state.plan.output else {
        return Step::Finish(succeeded(state, &answer.text, state.structured));
    };
    if state.must_force_output() {
        return call_model(state, OutputTool::Forced);
    }
    let problem = match serde_json::from_str::<Value>(&answer.text) {
        Err(error) => Some(format!("it is not JSON: {error}")),
        Ok(value) => validator.check(&value).err().map(|violations| {
            let first = violations.first();
            first.map_or_else(String::new, |v| format!("at {}: {}", v.path, v.message))
        }),
    };
    let mut structured = state.structured;
    if let Some(problem) = problem {
        if schema.enforcement == Enforcement::Strict {
            let message = format!("the answer does not follow the output schema: {problem}");
            return fail(ErrorClass::StructuredOutputNotEnforced, message);
        }
        structured.schema_enforced = false;
    }
    Step::Finish(succeeded(state, &answer.text, structured))
}
