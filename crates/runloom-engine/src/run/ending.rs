//! Terminal events, built from the state.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::{
    FailureReason, RunCancelled, RunError, RunResult, StructuredOutput, Tokens,
};

use super::state::RunState;
use runloom_ports::model::ModelError;

/// Tokens and text of a turn that did not complete.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Its tokens as reported by the provider.
    pub tokens: Tokens,
    /// 1 when the failed call is not yet among the state's turns.
    pub turns: u32,
    /// The text before the failure.
    pub partial_text: Option<String>,
}

/// The `result` event.
#[must_use]
pub fn succeeded(state: &RunState, text: &str, structured_output: StructuredOutput) -> Event {
    Event::Result(RunResult {
        ok: true,
        subtype: "success".to_owned(),
        text: text.to_owned(),
        tokens: state.with_below(state.tokens),
        turns: turns(state, 0),
        model: state.current_model().model.clone(),
        structured_output,
        cost_usd: cost(state, &state.tokens),
        subagents: state.usage_below(),
    })
}

/// The `error` event.
#[must_use]
pub fn failed(state: &RunState, error: &ModelError, spent: &Spent) -> Event {
    let tokens = sum(state, spent);
    Event::Error(RunError {
        error: error.message.clone(),
        code: error.class,
        error_class: error.class,
        finish_reason: error.finish_reason.clone(),
        partial_text: spent.partial_text.clone().filter(|text| !text.is_empty()),
        retryable: Some(error.retryable),
        tokens: state.with_below(tokens),
        turns: turns(state, spent.turns),
        model: state.current_model().model.clone(),
        structured_output: state.structured,
        api_status: error.api_status,
        api_code: error.api_code.clone(),
        cost_usd: cost(state, &tokens),
        subagents: state.usage_below(),
    })
}

/// The `cancelled` event; `receipt` brings the reason and the times.
#[must_use]
pub fn cancelled(state: &RunState, receipt: RunCancelled, spent: &Spent) -> Event {
    let tokens = sum(state, spent);
    Event::Cancelled(RunCancelled {
        tokens: state.with_below(tokens),
        turns: turns(state, spent.turns),
        model: Some(state.current_model().model.clone()),
        cost_usd: cost(state, &tokens),
        subagents: state.usage_below(),
        ..receipt
    })
}

/// The snapshot's `failureReason` for an `error` event.
#[must_use]
pub fn failure(error: &RunError) -> FailureReason {
    FailureReason {
        error_class: error.error_class,
        finish_reason: error.finish_reason.clone(),
    }
}

fn sum(state: &RunState, spent: &Spent) -> Tokens {
    let mut tokens = state.tokens;
    tokens.add(&spent.tokens);
    tokens
}

/// Invocations of the run and of all runs below; `failing` are not among the state's.
fn turns(state: &RunState, failing: u32) -> u32 {
    let own = state.turns.saturating_add(failing);
    own.saturating_add(state.below.turns)
}

/// The cost of the run, with the given own tokens, and of all runs below.
fn cost(state: &RunState, own: &Tokens) -> Option<f64> {
    let own = state.cost_pico(own);
    let below = state.below.cost_pico.map(u128::from);
    if own.is_none() && below.is_none() {
        return None;
    }
    let sum = own.unwrap_or_default() + below.unwrap_or_default();
    Some(sum as f64 / 1e12)
}
