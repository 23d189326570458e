//! Money: the worst-case cost of the next call, and whether the budgets cover it.

use runloom_protocol::spec::OutputSchema;

use super::plan::{Plan, Price};
use super::state::RunState;
use runloom_ports::model::ToolDeclaration;
use runloom_ports::store::MicroUsd;

/// Maximum output of one call under a money limit, for a model without a limit of its own.
const DEFAULT_OUTPUT: u64 = 8_192;
/// With less output than this an ordinary call is not worth making: the run is brought to its end instead.
const ORDINARY_LEAST: u64 = 1_024;
/// Maximum output of a finalise turn under a nearly used money limit.
const FINAL_MOST: u64 = 1_024;
/// With less output than this not even a short answer fits.
const FINAL_LEAST: u64 = 64;
/// Providers refuse smaller bounds, and adapters raise them to this.
const PROVIDER_LEAST: u64 = 16;

/// Tokens that a provider adds to a request by itself, at most: roles and separators, and its instructions for tools.
const FRAME_TOKENS: u64 = 256;
const FRAME_TOKENS_OF_TOOLS: u64 = 1_024;
const FRAME_TOKENS_PER_PART: u64 = 16;

/// The worst-case cost of a call, as a function of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bid {
    /// Worst-case cost of the input, in millionths of a [`MicroUsd`].
    input_pico: u128,
    /// Cost of an output token.
    output_pico: u64,
    /// Minimum output tokens. With fewer the call is not made.
    pub least: u64,
    /// Tokens of output that it may use.
    pub most: u64,
}

impl Bid {
    /// Worst-case cost with this much output.
    #[must_use]
    pub fn worst(&self, output: u64) -> MicroUsd {
        micro(self.input_pico + u128::from(self.output_pico) * u128::from(output))
    }

    /// The largest output, up to `most`, that this money covers; `None` when it is less than `least`.
    #[must_use]
    pub fn affordable(&self, money: MicroUsd) -> Option<u64> {
        if self.worst(self.most) <= money {
            return Some(self.most);
        }
        let left = (u128::from(money.0) * PICO_PER_MICRO).checked_sub(self.input_pico)?;
        let output = left.checked_div(u128::from(self.output_pico))?;
        let output = u64::try_from(output).unwrap_or(u64::MAX).min(self.most);
        (output >= self.least).then_some(output)
    }
}

const PICO_PER_MICRO: u128 = 1_000_000;

/// Rounds up, so that a budget never covers less than the bill.
fn micro(pico: u128) -> MicroUsd {
    MicroUsd(u64::try_from(pico.div_ceil(PICO_PER_MICRO)).unwrap_or(u64::MAX))
}

impl Price {
    /// The cost of these tokens, rounded up.
    #[must_use]
    pub fn micro(&self, tokens: &runloom_protocol::outcome::Tokens) -> MicroUsd {
        micro(self.pico(tokens))
    }
}

impl RunState {
    /// The cost that counts against the run's budget: its own calls and all runs below that have ended.
    #[must_use]
    pub fn spent(&self) -> MicroUsd {
        self.own_spent().plus(MicroUsd(self.below.spent_micro))
    }

    /// The cost of the run's own calls: reported usage, and unreported usage that may have been billed.
    #[must_use]
    pub fn own_spent(&self) -> MicroUsd {
        let unknown = self.lost.plus(self.reserved.unwrap_or_default());
        micro(self.known_cost_pico()).plus(unknown)
    }

    /// The bid for the next call; `None` without a money limit, or when the model has no price.
    #[must_use]
    pub fn bid(&self) -> Option<Bid> {
        let limited = self.plan.budgets.max_cost_usd.is_some() || self.plan.has_monthly_budgets;
        limited.then(|| self.worst_bid())?
    }

    /// The worst-case cost of the next call; `None` when the model has no price. Without a money limit it is an
    /// estimate: a model without an output limit gets the limit that a money limit would set.
    #[must_use]
    pub fn worst_bid(&self) -> Option<Bid> {
        let model = self.current_model();
        let price = model.price?;
        let output = self.output_left(model.max_output_tokens.unwrap_or(DEFAULT_OUTPUT));
        let output = output.max(PROVIDER_LEAST);
        let (least, most) = if self.economising.is_some() {
            (output.min(FINAL_LEAST), output.min(FINAL_MOST))
        } else {
            (output.min(ORDINARY_LEAST), output)
        };
        let input = u128::from(input_bound(self));
        Some(Bid {
            input_pico: input * u128::from(price.dearest_input()),
            output_pico: price.output_pico(),
            least,
            most,
        })
    }

    /// The bid for a summary of `bytes`; `None` when no limit of money applies to it.
    #[must_use]
    pub fn summary_bid(&self, bytes: u64, output: u64) -> Option<Bid> {
        let limited = self.plan.budgets.max_cost_usd.is_some() || self.plan.has_monthly_budgets;
        let price = self.summary_model().price.filter(|_| limited)?;
        let input = u128::from(bytes.saturating_add(FRAME_TOKENS));
        Some(Bid {
            input_pico: input * u128::from(price.dearest_input()),
            output_pico: price.output_pico(),
            least: output,
            most: output,
        })
    }

    /// The cost of `turns` turns with answers of maximum length: each answer is input of the turns after it. Results
    /// of tools are not included. `None` when the model has no price.
    #[must_use]
    pub fn worst_of_turns(&self, turns: u32) -> Option<MicroUsd> {
        let (bid, price) = (self.worst_bid()?, self.current_model().price?);
        let (turns, output) = (u128::from(turns), u128::from(bid.most));
        let read_again = turns.saturating_mul(turns.saturating_sub(1)) / 2 * output;
        let answers = turns * output * u128::from(bid.output_pico);
        let prompts = turns * bid.input_pico + read_again * u128::from(price.dearest_input());
        Some(micro(answers + prompts))
    }

    /// Output tokens left to the run, if fewer than `otherwise`.
    fn output_left(&self, otherwise: u64) -> u64 {
        let budget = self.plan.budgets.max_output_tokens;
        let left = budget.map(|max| max.saturating_sub(self.with_below(self.tokens).output_tokens));
        left.map_or(otherwise, |left| left.min(otherwise))
    }

    /// Output tokens that a child may use, when there is a limit.
    #[must_use]
    pub fn output_tokens_left(&self) -> Option<u64> {
        self.plan.budgets.max_output_tokens?;
        Some(self.output_left(u64::MAX))
    }

    /// Maximum output of the next call, if there is a limit other than money.
    #[must_use]
    pub fn output_bound(&self) -> Option<u64> {
        self.plan.budgets.max_output_tokens?;
        Some(self.output_left(self.current_model().max_output_tokens.unwrap_or(u64::MAX)))
    }

    /// An estimate of the prompt's tokens, for people.
    #[must_use]
    pub fn estimated_input(&self) -> u64 {
        sent_bytes(self).div_ceil(4)
    }

    /// The output that the run's own budget covers for a bid, or the reason why none.
    pub(super) fn within_cap(&self, bid: &Bid) -> Result<u64, String> {
        let Some(usd) = self.plan.budgets.max_cost_usd else {
            return Ok(bid.most);
        };
        let (cap, spent) = (MicroUsd::from_usd(usd), self.spent());
        bid.affordable(cap.minus(spent)).ok_or_else(|| {
            format!(
                "budgets.maxCostUsd ({cap}) cannot pay for another model call: {spent} is spent after {} turns, and the call may \
                 cost {}; a run's own budget does not refill",
                self.turns,
                bid.worst(bid.least),
            )
        })
    }
}

/// Upper bound of the input tokens: no token is shorter than a byte.
fn input_bound(state: &RunState) -> u64 {
    let tools = state.toolbox.declarations();
    let parts = state.messages.len() + tools.len();
    let mut bound = sent_bytes(state)
        .saturating_add(FRAME_TOKENS)
        .saturating_add(FRAME_TOKENS_PER_PART.saturating_mul(parts as u64));
    if !tools.is_empty() || state.plan.output.is_some() {
        bound = bound.saturating_add(FRAME_TOKENS_OF_TOOLS);
    }
    bound
}

pub(super) fn sent_bytes(state: &RunState) -> u64 {
    let plan: &Plan = &state.plan;
    let tools = state.toolbox.declarations();
    let tools = tools.iter().map(bytes_of_tool);
    let schema = plan
        .output
        .iter()
        .map(|(schema, _)| bytes_of_schema(schema));
    let said = plan.system.len() + state.messages.bytes();
    tools
        .chain(schema)
        .fold(said as u64, |sum, part| sum.saturating_add(part as u64))
}

fn bytes_of_tool(tool: &ToolDeclaration) -> usize {
    // A schema may be sent as text inside JSON, where every quote takes two bytes.
    let output = tool.output_schema.as_ref();
    let output = output.map_or(0, |schema| schema.to_string().len() * 2);
    tool.name.len() + tool.description.len() + tool.parameters.to_string().len() + output
}

fn bytes_of_schema(schema: &OutputSchema) -> usize {
    let text = serde_json::to_string(schema).unwrap_or_default();
    text.len() * 2
}
