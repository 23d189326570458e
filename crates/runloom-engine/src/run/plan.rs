//! What does not change during a run.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};
use runloom_protocol::spec::{Budgets, LoopDetection, OutputSchema, ToolBudget};

use crate::toolbox::Toolbox;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::Capabilities;
use runloom_schema::{SchemaCache, Validator};

/// Everything the machine knows before the first event.
#[derive(Debug)]
pub struct Plan {
    /// Which run; also the seed of its `tu_…` ids.
    pub run: RunId,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation before the first turn: a session's history, then the request's messages.
    pub opening: Conversation,
    /// The tools that are known from the spec alone.
    pub toolbox: Arc<Toolbox>,
    /// Whether the spec names tools that the server resolves at the start of the run.
    pub has_server_tools: bool,
    /// Compiles the schemas of resolved tools.
    pub schemas: Arc<SchemaCache>,
    /// 0–100, or not asked.
    pub reasoning_level: Option<u8>,
    /// The schema of the final text, and its validator.
    pub output: Option<(Arc<OutputSchema>, Validator)>,
    /// Who speaks.
    pub primary: Speaker,
    /// Who speaks when that one is out of service.
    pub fallback: Option<Speaker>,
    /// MonthlyBudgets that other runs share have to pay for the calls.
    pub has_monthly_budgets: bool,
    /// Tool turns before the finalise turn.
    pub max_tool_turns: u32,
    /// When the model repeats itself.
    pub loop_detection: LoopDetection,
    /// Calls that each tool may get.
    pub tool_budgets: Arc<BTreeMap<String, u32>>,
    /// Limits of time, tokens and money.
    pub budgets: Budgets,
}

/// A model, as the machine knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Speaker {
    /// Which one.
    pub model: ModelInfo,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it costs, when that is known.
    pub price: Option<Price>,
    /// Upper bound of one answer, when it has one.
    pub max_output_tokens: Option<u64>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from a cache.
    pub cache_read: f64,
}

impl Price {
    /// What these tokens cost in whole millionths of a millionth of a dollar: sums are exact in any order.
    #[must_use]
    pub fn pico(&self, tokens: &Tokens) -> u128 {
        let cached = tokens.cached_tokens.min(tokens.input_tokens);
        let cost = |count: u64, price: f64| u128::from(count) * u128::from(pico(price));
        cost(tokens.input_tokens - cached, self.input)
            + cost(cached, self.cache_read)
            + cost(tokens.output_tokens, self.output)
    }

    /// What a token of input costs at most.
    pub(super) fn dearest_input(&self) -> u64 {
        pico(self.input).max(pico(self.cache_read))
    }

    /// What a token of output costs.
    pub(super) fn output_pico(&self) -> u64 {
        pico(self.output)
    }
}

/// A price for a million tokens as whole millionths of a millionth of a dollar for one token.
fn pico(per_million: f64) -> u64 {
    (per_million * 1e6).round() as u64
}

/// The budgets of tools that hold when nothing is said about them.
static DEFAULT_BUDGETS: LazyLock<Arc<BTreeMap<String, u32>>> = LazyLock::new(|| {
    const HIVE: [&str; 9] = [
        "deals",
        "meetings",
        "companies",
        "people",
        "tickets",
        "conversations",
        "accounts",
        "releases",
        "issues",
    ];
    let budgets = [("recall", 4), ("traverse", 3), ("hive_consult_ontology", 4)]
        .map(|(tool, calls)| (tool.to_owned(), calls))
        .into_iter()
        .chain(HIVE.map(|what| (format!("hive_search_{what}"), 5)));
    Arc::new(budgets.collect())
});

/// The budgets that hold when a spec says nothing; given entries are layered over them, and an empty map clears them.
#[must_use]
pub fn default_tool_budgets(
    given: Option<&BTreeMap<String, ToolBudget>>,
) -> Arc<BTreeMap<String, u32>> {
    let Some(given) = given else {
        return Arc::clone(&DEFAULT_BUDGETS);
    };
    if given.is_empty() {
        return Arc::default();
    }
    let mut budgets = BTreeMap::clone(&DEFAULT_BUDGETS);
    for (tool, budget) in given {
        budgets.insert(tool.clone(), budget.max_calls);
    }
    Arc::new(budgets)
}
