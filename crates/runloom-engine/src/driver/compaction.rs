//! Summaries: the model is asked to summarise older turns, and the outcome is durable before the next turn.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use runloom_protocol::outcome::{ErrorClass, Tokens};
use serde_json::json;
use tracing::{debug, warn};

use super::attempt::{BACKOFF_LONGEST, backoff, billing_after};
use super::interrupt::TurnInterrupt;
use super::money::{Billing, Funding};
use super::turn::TurnEnd;
use super::{Abandon, Driver};
use crate::metrics::{CallOutcome, METRICS};
use crate::run::{
    self, CallPlan, CompactStep, OtherModelCost, Spent, SummaryOutcome, SummaryUsage,
};
use runloom_ports::crash;
use runloom_ports::model::{
    Message, Model, ModelError, ModelEvent, ModelRequest, SUMMARY_INSTRUCTIONS,
};
use runloom_ports::store::MicroUsd;

/// Retries of a summary.
const RETRIES: u32 = 2;
/// Longest summary.
const SUMMARY_BYTES: usize = 64 * 1024;
/// Bytes of one tool result in a request for a summary.
const RESULT_BYTES: usize = 4 * 1024;
/// Bytes of a request for a summary when the window of its model is unknown.
const REQUEST_BYTES: u64 = 256 * 1024;

/// One call for a summary.
enum SummaryCall {
    Done(String),
    Broken(ModelError),
    Interrupted(TurnInterrupt),
}

impl Driver {
    /// Asks for a summary of the older turns and records it. Without a summary the turns are dropped.
    pub(super) async fn compact(&mut self, step: CompactStep) -> Result<TurnEnd, Abandon> {
        let mut usage = SummaryUsage::default();
        let mut retries = 0;
        let summary = loop {
            let plan = CallPlan {
                turn: 0,
                tools_enabled: false,
                force_output: false,
                max_output_tokens: Some(step.max_output_tokens),
                bid: self
                    .state
                    .summary_bid(self.summary_bytes(&step), step.max_output_tokens),
            };
            match self.fund(plan).await? {
                Funding::Paid(_) => {}
                Funding::Short(reason) => break Err(reason),
                Funding::Interrupted(interrupt) => {
                    return Ok(self.interrupted_by(interrupt, Spent::default()));
                }
            }
            let mut tokens = Tokens::default();
            let began = Instant::now();
            crash::point("before_summary");
            let call = self.ask_for_summary(&step, &mut tokens).await?;
            let provider = &self.state.summary_model().model.provider;
            let (outcome, billing) = match &call {
                SummaryCall::Done(_) => (CallOutcome::Completed, Billing::Reported),
                SummaryCall::Broken(error) => {
                    (CallOutcome::Failed(error.class), billing_after(error))
                }
                SummaryCall::Interrupted(_) => (CallOutcome::Interrupted, Billing::Possible),
            };
            METRICS.model_called(provider, outcome, began.elapsed());
            match call {
                SummaryCall::Done(text) => {
                    self.settle_summary(&mut usage, tokens, billing).await?;
                    break Ok(text);
                }
                SummaryCall::Interrupted(interrupt) => {
                    self.record_attempt(tokens, billing);
                    return Ok(self.interrupted_by(interrupt, Spent::default()));
                }
                SummaryCall::Broken(error) => {
                    self.settle_summary(&mut usage, tokens, billing).await?;
                    let pause = backoff(retries, error.retry_after);
                    if !error.retryable || retries >= RETRIES || pause > BACKOFF_LONGEST {
                        break Err(error.message);
                    }
                    debug!(class = error.class.as_str(), ?pause, "summary retry");
                    retries += 1;
                    if let Some(interrupt) = self.pause(pause).await? {
                        return Ok(self.interrupted_by(interrupt, Spent::default()));
                    }
                }
            }
        };
        if let Err(reason) = &summary {
            warn!(reason, "summary failed; turns dropped");
        }
        let outcome = SummaryOutcome { summary, usage };
        let (event, note) = run::compacted(&self.state, &step, outcome);
        self.record(event)?;
        self.note(note);
        crash::point("summary_done");
        self.journal.flush().await?;
        crash::point("after_summary");
        Ok(TurnEnd::Complete)
    }

    /// Adds what a call used, and bills it to the model that was asked.
    async fn settle_summary(
        &mut self,
        usage: &mut SummaryUsage,
        tokens: Tokens,
        billing: Billing,
    ) -> Result<(), Abandon> {
        let facts = self.state.summary_model();
        let (price, is_other) = (
            facts.price,
            facts.model.id != self.state.current_model().model.id,
        );
        let model: Arc<str> = facts.model.id.as_str().into();
        let told = price.map(|price| price.micro(&tokens)).unwrap_or_default();
        let pico = price.map(|price| u64::try_from(price.pico(&tokens)).unwrap_or(u64::MAX));
        if let Some(reserved) = self.reserved.take() {
            let spent = match billing {
                Billing::Possible => reserved.max(told),
                Billing::Reported => told,
            };
            self.journal.settle(spent);
            usage.lost = MicroUsd(usage.lost).plus(spent.minus(told)).0;
        }
        usage.tokens.add(&tokens);
        if !is_other {
            self.journal.count(&tokens, pico.unwrap_or_default(), 0);
            return Ok(());
        }
        let other = usage
            .other_model
            .get_or_insert(OtherModelCost { cost_pico: Some(0) });
        other.cost_pico = other.cost_pico.zip(pico).map(|(sum, more)| sum + more);
        // A batch bills its usage to one model.
        self.journal.flush().await?;
        let before = self.journal.billed_model.replace(model);
        self.journal.count(&tokens, pico.unwrap_or_default(), 0);
        let flushed = self.journal.flush().await;
        self.journal.billed_model = before;
        flushed.map(drop)
    }

    async fn ask_for_summary(
        &mut self,
        step: &CompactStep,
        tokens: &mut Tokens,
    ) -> Result<SummaryCall, Abandon> {
        let request = self.summary_request(step);
        let model = match &self.planned.summariser {
            Some(model) => Arc::clone(model),
            None => self.current_model(),
        };
        let calling = call(&*model, request, tokens);
        let mut calling = std::pin::pin!(calling);
        loop {
            tokio::select! {
                done = &mut calling => return Ok(match done {
                    Ok(text) => SummaryCall::Done(text),
                    Err(error) => SummaryCall::Broken(error),
                }),
                interrupt = self.interrupt() => if let Some(interrupt) = interrupt? {
                    return Ok(SummaryCall::Interrupted(interrupt));
                },
            }
        }
    }

    fn summary_request(&self, step: &CompactStep) -> ModelRequest {
        let plan = self.state.plan.compaction.as_ref();
        let instructions = plan.and_then(|plan| plan.instructions.as_deref());
        let text = self.summary_text(step);
        let text = match instructions {
            Some(instructions) => format!("{text}\n\n{instructions}"),
            None => text,
        };
        ModelRequest {
            system: SUMMARY_INSTRUCTIONS.into(),
            tools_enabled: false,
            max_output_tokens: Some(step.max_output_tokens),
            ..ModelRequest::new(vec![Message::User { text: text.into() }])
        }
    }

    /// The older turns as JSON, one message per line. Lines that would not fit the window of the summary's model are
    /// left out, the oldest first; an earlier summary stays.
    fn summary_text(&self, step: &CompactStep) -> String {
        let mut left = self.summary_bytes(step);
        let lines: Vec<String> = self
            .state
            .messages
            .iter()
            .take(step.cut)
            .map(line)
            .collect();
        let (first, rest) = match lines.split_first() {
            Some(split) => split,
            None => return String::new(),
        };
        left = left.saturating_sub(first.len() as u64);
        let mut kept: Vec<&str> = Vec::new();
        for line in rest.iter().rev() {
            let Some(after) = left.checked_sub(line.len() as u64 + 1) else {
                break;
            };
            left = after;
            kept.push(line);
        }
        let missing = rest.len() - kept.len();
        if missing > 0 {
            kept.push("…");
        }
        kept.push(first);
        kept.reverse();
        kept.join("\n")
    }

    /// Bytes that the older turns may take in the request for a summary.
    fn summary_bytes(&self, step: &CompactStep) -> u64 {
        let window = self.state.summary_model().context_window;
        // Three bytes per token are a cautious estimate.
        let room = window.map_or(REQUEST_BYTES, |window| {
            window.saturating_sub(step.max_output_tokens) * 3 / 4 * 3
        });
        room.max(1_024)
    }
}

async fn call(
    model: &dyn Model,
    request: ModelRequest,
    tokens: &mut Tokens,
) -> Result<String, ModelError> {
    let mut stream = model.call(request).await?;
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(piece) => {
                if text.len() + piece.len() <= SUMMARY_BYTES {
                    text.push_str(&piece);
                }
            }
            ModelEvent::Usage(used) => *tokens = used,
            ModelEvent::Done(_) if text.trim().is_empty() => {
                let mut error = ModelError::new(ErrorClass::Unknown, "the summary is empty");
                error.retryable = false;
                return Err(error);
            }
            ModelEvent::Done(_) => return Ok(text),
            ModelEvent::Thinking(_) | ModelEvent::Call(_) => {}
        }
    }
    let message = "the provider's stream ended without its final frame";
    Err(ModelError::new(ErrorClass::Server, message))
}

/// A message as one line of JSON.
fn line(message: &Message) -> String {
    let value = match message {
        Message::System { text } => json!({"role": "system", "text": text}),
        Message::User { text } => json!({"role": "user", "text": text}),
        Message::UserFiles { text, files } => {
            let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
            json!({"role": "user", "text": text, "files": names})
        }
        Message::Assistant { text, calls, .. } => {
            let calls: Vec<_> = calls
                .iter()
                .map(|call| json!({"name": call.name, "input": call.input}))
                .collect();
            json!({"role": "assistant", "text": text, "calls": calls})
        }
        Message::Tool { name, content, .. } => {
            let end = content.floor_char_boundary(RESULT_BYTES);
            json!({"role": "tool", "name": name, "result": &content[..end]})
        }
    };
    value.to_string()
}
