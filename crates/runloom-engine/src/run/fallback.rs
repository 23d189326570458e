//! The fallback: when another model takes over, and the effect on the state.

use std::collections::HashMap;

use runloom_protocol::event::{Event, ModelFallback};
use runloom_protocol::outcome::{ErrorClass, Tokens};
use runloom_protocol::spec::Enforcement;

use super::plan::{ModelFacts, Plan, Price};
use super::state::RunState;
use super::transcript::Transcript;
use runloom_ports::model::{CallRequest, Message, ModelError, StructuredSupport};

/// The event by which the fallback takes over after a turn has failed. `None` when the run ends instead: there is no
/// fallback, it is in use already, part of the answer was shown, or another model would fail in the same way.
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

/// Whether the provider failed, not the request. Rate limits are excluded: they are the caller's quota, which a
/// fallback would hide.
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

/// Whether the plan requires a strict output schema that the model cannot enforce.
pub(super) fn lacks_strict_schema(plan: &Plan, model: &ModelFacts) -> bool {
    let output = plan.output.as_ref();
    let strict = output.is_some_and(|(schema, _)| schema.enforcement == Enforcement::Strict);
    strict && model.capabilities.structured == StructuredSupport::None
}

impl RunState {
    /// Whether the fallback has taken over.
    #[must_use]
    pub fn fell_back(&self) -> bool {
        self.before_fallback.is_some()
    }

    /// The model of the next turn.
    #[must_use]
    pub fn current_model(&self) -> &ModelFacts {
        let fallback = self.plan.fallback.as_ref();
        fallback
            .filter(|_| self.fell_back())
            .unwrap_or(&self.plan.primary)
    }

    pub(super) fn apply_fallback(&mut self) {
        // Without a fallback in the plan, the session has already changed to it and it is the first model.
        if self.plan.fallback.is_some() && !self.fell_back() {
            self.before_fallback = Some(since(&self.tokens, &self.summary_tokens));
            self.forget_vendor();
        }
    }

    /// Removes what only the first vendor accepts from the messages of this run: its private items, and the ids of its
    /// calls. Messages from before the run have neither.
    fn forget_vendor(&mut self) {
        let before = match self.compacted {
            None => self.plan.opening.clone(),
            Some(_) => self.messages.iter().take(self.first_own).cloned().collect(),
        };
        let since = before.len();
        let mut portable = Transcript::from(before);
        let mut ids = Ids::of(&self.plan);
        for message in self.messages.iter().skip(since) {
            portable.push(ids.portable(message.clone()));
        }
        self.messages = portable;
    }

    /// The costs of these tokens in picodollars, per model; `None` for a model without a price. The tokens include
    /// those of the state.
    fn costs(&self, tokens: &Tokens) -> impl Iterator<Item = Option<u128>> {
        let pico = |price: Option<Price>, tokens: Tokens| price.map(|price| price.pico(&tokens));
        let used = |tokens: &Tokens| *tokens != Tokens::default();
        let summaries = used(&self.summary_tokens).then_some(self.summary_pico);
        let tokens = since(tokens, &self.summary_tokens);
        let Some(before) = self.before_fallback else {
            return [Some(pico(self.plan.primary.price, tokens)), None, summaries]
                .into_iter()
                .flatten();
        };
        let after = since(&tokens, &before);
        let first = used(&before).then(|| pico(self.plan.primary.price, before));
        [
            first,
            Some(pico(self.current_model().price, after)),
            summaries,
        ]
        .into_iter()
        .flatten()
    }

    /// The cost of these tokens; `None` when one of the models has no price.
    pub(super) fn cost_pico(&self, tokens: &Tokens) -> Option<u128> {
        self.costs(tokens).sum()
    }

    /// The cost of the tokens so far, of models with a price.
    pub(super) fn known_cost_pico(&self) -> u128 {
        self.costs(&self.tokens).flatten().sum()
    }
}

/// Call ids that every vendor accepts.
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

    /// Gives a call a new id, because a vendor may repeat an id in a later turn. The results of a turn come before
    /// that.
    fn named(&mut self, mut call: CallRequest) -> CallRequest {
        self.count += 1;
        let id = format!("tu_{}_{}", self.run, self.count);
        let vendors = std::mem::replace(&mut call.id, id.clone());
        self.known.insert(vendors, id);
        call
    }
}

/// The tokens used after `before`.
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
