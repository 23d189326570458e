//! The plan: the constant part of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};
use runloom_protocol::spec::{Budgets, LoopDetection, OutputSchema, ToolBudget};

use super::compaction::CompactionPlan;
use super::delegation::TreePlace;
use crate::policy::CompiledPolicy;
use crate::toolbox::Toolbox;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::Capabilities;
use runloom_schema::{SchemaCache, Validator};

/// A spec with everything resolved, before the first event.
#[derive(Debug)]
pub struct Plan {
    /// Which run; also the seed of its `tu_…` ids.
    pub run: RunId,
    /// The system prompt.
    pub system: Arc<str>,
    /// Messages of `opening` that are from before the request.
    pub history_len: usize,
    /// How the conversation is compacted; `None` for never.
    pub compaction: Option<CompactionPlan>,
    /// The conversation before the first turn: a session's history, then the request's messages.
    pub opening: Conversation,
    /// Tools known from the spec alone.
    pub toolbox: Arc<Toolbox>,
    /// Whether the spec names tools that the server resolves at the start of the run.
    pub has_server_tools: bool,
    /// Compiles the schemas of resolved tools.
    pub schemas: Arc<SchemaCache>,
    /// 0–100, if requested.
    pub reasoning_level: Option<u8>,
    /// The schema of the final text, and its validator.
    pub output: Option<(Arc<OutputSchema>, Validator)>,
    /// The model of the run.
    pub primary: ModelFacts,
    /// The fallback model.
    pub fallback: Option<ModelFacts>,
    /// Whether monthly budgets apply to its model calls.
    pub has_monthly_budgets: bool,
    /// Tool turns before the finalise turn.
    pub max_tool_turns: u32,
    /// Limits for repeated tool calls.
    pub loop_detection: LoopDetection,
    /// Largest number of calls per tool.
    pub tool_budgets: Arc<BTreeMap<String, u32>>,
    /// Policies of the request and of its agent; the strictest decision of all holds.
    pub policies: Vec<CompiledPolicy>,
    /// Whether the process that drives the run judges each call, too.
    pub has_call_policy: bool,
    /// Limits of time, tokens and money.
    pub budgets: Budgets,
    /// How long calls wait for the client, when that is not the server's setting.
    pub client_timeout_ms: Option<u64>,
    /// Position of the run in its tree.
    pub place: TreePlace,
}

/// Facts about a model for the run machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    /// Its name and provider, as events show it.
    pub model: ModelInfo,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Price, if known.
    pub price: Option<Price>,
    /// Tokens that it can read, if known.
    pub context_window: Option<u64>,
    /// Maximum output tokens of one call, if limited.
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
    /// The cost of these tokens in whole picodollars, so that sums are exact in any order.
    #[must_use]
    pub fn pico(&self, tokens: &Tokens) -> u128 {
        let cached = tokens.cached_tokens.min(tokens.input_tokens);
        let cost = |count: u64, price: f64| u128::from(count) * u128::from(pico(price));
        cost(tokens.input_tokens - cached, self.input)
            + cost(cached, self.cache_read)
            + cost(tokens.output_tokens, self.output)
    }

    /// The highest price of an input token.
    pub(super) fn dearest_input(&self) -> u64 {
        pico(self.input).max(pico(self.cache_read))
    }

    /// The price of an output token.
    pub(super) fn output_pico(&self) -> u64 {
        pico(self.output)
    }
}

/// A price in dollars per million tokens as picodollars per token.
fn pico(per_million: f64) -> u64 {
    (per_million * 1e6).round() as u64
}

/// The default tool budgets.
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

/// The default tool budgets with the given entries over them. An empty map clears the defaults.
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
