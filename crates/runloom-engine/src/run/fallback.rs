//! Another model in the place of one that is out of service: when that happens, and what it changes.

use std::collections::HashMap;

use runloom_protocol::event::{Event, ModelFallback};
use runloom_protocol::outcome::{ErrorClass, Tokens};
use runloom_protocol::spec::Enforcement;

use super::plan::{Plan, Price, Speaker};
use super::state::RunState;
use super::transcript::Transcript;
use runloom_ports::model::{CallRequest, Message, ModelError, StructuredSupport};

/// The event with which the run goes on with its fallback after the turn has failed for good; `None` when it ends instead: there is
/// no fallback, it speaks already, somebody has seen a part of the answer, or another model would fail in the same way.
#[must_use]
pub fn fall_back(state: &RunState, error: &ModelError) -> Option<Event> {
    let plan = &state.plan;
    let fallback = plan.fallback.as_ref()?;
    let unfit = lacks_strict_schema(plan, fallback);
    if state.fell_back() || state.shown || unfit || !is_out_of_service(error.class) {
        return None;
    }
    Some(Event::ModelFallback(ModelFallback {
        error_class: error.class,
        model: fallback.model.clone(),
        primary_model_id: plan.primary.model.id.clone(),
        fallback_model_id: fallback.model.id.clone(),
    }))
}

/// The provider is to blame, and not what it was asked. A rate limit is not among them: it is the caller's share that is used up, and
/// moving on would hide that.
fn is_out_of_service(class: ErrorClass) -> bool {
    match class {
        ErrorClass::Overloaded
        | ErrorClass::Server
        | ErrorClass::Timeout
        | ErrorClass::UpstreamDeadline => true,
        ErrorClass::RateLimit
        | ErrorClass::ContextWindow
        | ErrorClass::Truncation
        | ErrorClass::InvalidRequest
        | ErrorClass::Auth
        | ErrorClass::LocalTimeout
        | ErrorClass::BudgetExceeded
        | ErrorClass::StructuredOutputSchemaRejected
        | ErrorClass::StructuredOutputNotSupported
        | ErrorClass::StructuredOutputNotEnforced
        | ErrorClass::Unknown => false,
    }
}

/// The speaker cannot keep the promise of a strict output schema.
pub(super) fn lacks_strict_schema(plan: &Plan, speaker: &Speaker) -> bool {
    let output = plan.output.as_ref();
    let strict = output.is_some_and(|(schema, _)| schema.enforcement == Enforcement::Strict);
    strict && speaker.capabilities.structured == StructuredSupport::None
}

impl RunState {
    /// Whether the run goes on with its fallback.
    #[must_use]
    pub fn fell_back(&self) -> bool {
        self.before_fallback.is_some()
    }

    /// Who speaks in the next turn.
    #[must_use]
    pub fn speaker(&self) -> &Speaker {
        let fallback = self.plan.fallback.as_ref();
        fallback
            .filter(|_| self.fell_back())
            .unwrap_or(&self.plan.primary)
    }

    pub(super) fn apply_fallback(&mut self) {
        // A plan without one is of a run whose session had moved on before it began: its first model is the fallback.
        if self.plan.fallback.is_some() && !self.fell_back() {
            self.before_fallback = Some(self.tokens);
            self.forget_vendor();
        }
    }

    /// What the first model's vendor put into the conversation means nothing to another, or is refused by it: private items, which
    /// may belong to an account, and the ids of calls, of which every vendor has its own idea. What was there when the run began has
    /// neither.
    fn forget_vendor(&mut self) {
        let opening = self.plan.opening.clone();
        let since = opening.len();
        let mut portable = Transcript::from(opening);
        let mut ids = Ids::of(&self.plan);
        for message in self.messages.iter().skip(since) {
            portable.push(ids.portable(message.clone()));
        }
        self.messages = portable;
    }

    /// What these tokens, of which the state's are a part, cost in millionths of a millionth of a dollar, each at the price of the
    /// model that used them; `None` for those of a model without a price.
    fn costs(&self, tokens: &Tokens) -> impl Iterator<Item = Option<u128>> {
        let pico = |price: Option<Price>, tokens: Tokens| price.map(|price| price.pico(&tokens));
        let Some(before) = self.before_fallback else {
            return [Some(pico(self.plan.primary.price, *tokens)), None]
                .into_iter()
                .flatten();
        };
        let used = |tokens: &Tokens| *tokens != Tokens::default();
        let after = since(tokens, &before);
        let first = used(&before).then(|| pico(self.plan.primary.price, before));
        [first, Some(pico(self.speaker().price, after))]
            .into_iter()
            .flatten()
    }

    /// What these tokens cost; `None` when a model that used some of them has no price.
    pub(super) fn cost_pico(&self, tokens: &Tokens) -> Option<u128> {
        self.costs(tokens).sum()
    }

    /// What the tokens so far cost, as far as the models have prices.
    pub(super) fn known_cost_pico(&self) -> u128 {
        self.costs(&self.tokens).flatten().sum()
    }
}

/// Ids that any vendor takes, in the place of a vendor's own.
struct Ids {
    run: String,
    known: HashMap<String, String>,
    count: u32,
}

impl Ids {
    fn of(plan: &Plan) -> Self {
        let run = plan.run.as_str().trim_start_matches("run_").to_owned();
        Self {
            run,
            known: HashMap::new(),
            count: 0,
        }
    }

    fn portable(&mut self, message: Message) -> Message {
        match message {
            Message::Assistant { text, calls, .. } => Message::Assistant {
                text,
                calls: calls.into_iter().map(|call| self.named(call)).collect(),
                state: None,
            },
            Message::Tool {
                call_id,
                name,
                content,
                is_error,
            } => Message::Tool {
                call_id: self.known.get(&call_id).cloned().unwrap_or(call_id),
                name,
                content,
                is_error,
            },
            other => other,
        }
    }

    /// A vendor may use an id again in a later turn: the results of a turn follow it before that.
    fn named(&mut self, mut call: CallRequest) -> CallRequest {
        self.count += 1;
        let id = format!("tu_{}_{}", self.run, self.count);
        let vendors = std::mem::replace(&mut call.id, id.clone());
        self.known.insert(vendors, id);
        call
    }
}

/// What came after `before`.
fn since(tokens: &Tokens, before: &Tokens) -> Tokens {
    Tokens {
        input_tokens: tokens.input_tokens.saturating_sub(before.input_tokens),
        cached_tokens: tokens.cached_tokens.saturating_sub(before.cached_tokens),
        reasoning_tokens: tokens
            .reasoning_tokens
            .saturating_sub(before.reasoning_tokens),
        output_tokens: tokens.output_tokens.saturating_sub(before.output_tokens),
    }
}
