//! Money: what the next call can cost at worst, and whether that can be paid.

use runloom_protocol::spec::OutputSchema;

use super::plan::{Plan, Price};
use super::state::RunState;
use runloom_ports::model::ToolDeclaration;
use runloom_ports::store::MicroUsd;

/// Output of one call when a limit of money applies and the model has no bound of its own.
const DEFAULT_OUTPUT: u64 = 8_192;
/// With less output than this an ordinary call is not worth making: the run is brought to its end instead.
const ORDINARY_LEAST: u64 = 1_024;
/// Output of a finalise turn that is made because money runs out.
const FINAL_MOST: u64 = 1_024;
/// With less output than this not even a short answer fits.
const FINAL_LEAST: u64 = 64;
/// Providers refuse smaller bounds, and adapters raise them to this.
const PROVIDER_LEAST: u64 = 16;

/// Tokens that a provider adds to a request by itself, at most: roles and separators, and its instructions for tools.
const FRAME_TOKENS: u64 = 256;
const FRAME_TOKENS_OF_TOOLS: u64 = 1_024;
const FRAME_TOKENS_PER_PART: u64 = 16;

/// What a call can cost, as a function of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bid {
    /// What the input costs at worst, in millionths of a [`MicroUsd`].
    input_pico: u128,
    /// What a token of output costs.
    output_pico: u64,
    /// Tokens of output without which the call is not made.
    pub least: u64,
    /// Tokens of output that it may use.
    pub most: u64,
}

impl Bid {
    /// What the call costs at worst with so much output.
    #[must_use]
    pub fn worst(&self, output: u64) -> MicroUsd {
        micro(self.input_pico + u128::from(self.output_pico) * u128::from(output))
    }

    /// The largest output, `most` at most, that this money pays for; `None` when it is less than `least`.
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

/// Rounded up: a monthly_budget never pays less than what was billed.
fn micro(pico: u128) -> MicroUsd {
    MicroUsd(u64::try_from(pico.div_ceil(PICO_PER_MICRO)).unwrap_or(u64::MAX))
}

impl Price {
    /// What these tokens cost, rounded up.
    #[must_use]
    pub fn micro(&self, tokens: &runloom_protocol::outcome::Tokens) -> MicroUsd {
        micro(self.pico(tokens))
    }
}

impl RunState {
    /// What counts against the run's budget: its own calls, and all runs below that have ended.
    #[must_use]
    pub fn spent(&self) -> MicroUsd {
        self.own_spent().plus(MicroUsd(self.below.spent_micro))
    }

    /// What the run's own calls cost: what the provider told, and what it may have billed without telling.
    #[must_use]
    pub fn own_spent(&self) -> MicroUsd {
        let unknown = self.lost.plus(self.reserved.unwrap_or_default());
        micro(self.known_cost_pico()).plus(unknown)
    }

    /// The bid for the next call; `None` when no limit of money applies to it. A model without a price cannot be held
    /// to one.
    #[must_use]
    pub fn bid(&self) -> Option<Bid> {
        let limited = self.plan.budgets.max_cost_usd.is_some() || self.plan.has_monthly_budgets;
        limited.then(|| self.worst_bid())?
    }

    /// What the next call can cost; `None` when the model has no price. Without a limit of money it is an estimate:
    /// the output of a model without a bound of its own is taken to have the bound that a limit would give it.
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

    /// The cost of `turns` turns whose answers all have the maximum length: each answer is input of the turns after
    /// it. Results of tools are not included. `None` when the model has no price.
    #[must_use]
    pub fn worst_of_turns(&self, turns: u32) -> Option<MicroUsd> {
        let (bid, price) = (self.worst_bid()?, self.current_model().price?);
        let (turns, output) = (u128::from(turns), u128::from(bid.most));
        let read_again = turns.saturating_mul(turns.saturating_sub(1)) / 2 * output;
        let answers = turns * output * u128::from(bid.output_pico);
        let prompts = turns * bid.input_pico + read_again * u128::from(price.dearest_input());
        Some(micro(answers + prompts))
    }

    /// What is left of the run's output tokens, when that is less.
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

    /// Upper bound of the next call's output, when there is one besides money's.
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

    /// What the run's own budget says to a bid: the output it can pay for, or why none.
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

fn sent_bytes(state: &RunState) -> u64 {
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
