//! Terminal events, made from the state.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::{
    FailureReason, RunCancelled, RunError, RunResult, StructuredOutput, Tokens,
};

use super::state::RunState;
use runloom_ports::model::ModelError;

/// What an incomplete turn cost and said before it ended.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Its tokens, as far as the provider told.
    pub tokens: Tokens,
    /// 1 when the failing invocation is not yet among the state's turns.
    pub turns: u32,
    /// What it had said.
    pub partial_text: Option<String>,
}

/// The `result` event.
#[must_use]
pub fn succeeded(state: &RunState, text: &str, structured_output: StructuredOutput) -> Event {
    Event::Result(RunResult {
        subagents: None,
        ok: true,
        subtype: "success".to_owned(),
        text: text.to_owned(),
        tokens: state.tokens,
        turns: state.turns,
        model: state.current_model().model.clone(),
        structured_output,
        cost_usd: cost(state, &state.tokens),
    })
}

/// The `error` event.
#[must_use]
pub fn failed(state: &RunState, error: &ModelError, spent: &Spent) -> Event {
    let tokens = sum(state, spent);
    Event::Error(RunError {
        subagents: None,
        error: error.message.clone(),
        code: error.class,
        error_class: error.class,
        finish_reason: error.finish_reason.clone(),
        partial_text: spent.partial_text.clone().filter(|text| !text.is_empty()),
        retryable: Some(error.retryable),
        tokens,
        turns: state.turns + spent.turns,
        model: state.current_model().model.clone(),
        structured_output: state.structured,
        api_status: error.api_status,
        api_code: error.api_code.clone(),
        cost_usd: cost(state, &tokens),
    })
}

/// The `cancelled` event; `receipt` brings the reason and the times.
#[must_use]
pub fn cancelled(state: &RunState, receipt: RunCancelled, spent: &Spent) -> Event {
    let tokens = sum(state, spent);
    Event::Cancelled(RunCancelled {
        tokens,
        turns: state.turns + spent.turns,
        model: Some(state.current_model().model.clone()),
        cost_usd: cost(state, &tokens),
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

fn cost(state: &RunState, tokens: &Tokens) -> Option<f64> {
    state.cost_pico(tokens).map(|pico| pico as f64 / 1e12)
}
