//! One turn: the model is called, its deltas are written and published, its end is recorded.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{FutureExt, StreamExt};
use runloom_protocol::event::{AssistantMessage, Event, RequestedCall, TextDelta};
use runloom_protocol::limits::JSON_DEPTH_MAX;
use runloom_protocol::outcome::{ErrorClass, RunCancelled, finish_reason};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::validate::fits_in_depth;
use tracing::debug;

use super::attempt::{
    Attempt, BACKOFF_LONGEST, Progress, TurnClock, backoff, billing_after, given_back,
    retries_before_fallback,
};
use super::delta_throttle::DeltaThrottle;
use super::execute::millis;
use super::interrupt::TurnInterrupt;
use super::journal::Writing;
use super::money::{Billing, Funding, exceeded};
use super::{Abandon, Driver};
use crate::metrics::METRICS;
use crate::run::{self, CallPlan, Note, RunState, Spent, Step};
use runloom_ports::crash;
use runloom_ports::model::{Done, ModelError, ModelEvent, ModelRequest, ModelStream};
use runloom_ports::store::Next;

/// Longest text of one turn. A longer one fails the turn.
const MAX_TURN_BYTES: usize = 8 * 1024 * 1024;
/// Most calls of one turn.
const MAX_CALLS: usize = 256;
/// Drafted bytes at which the provider is no longer read.
const MAX_PENDING_BYTES: usize = 256 * 1024;

/// An item of a provider's stream.
type Item = Result<ModelEvent, ModelError>;

/// How a turn ended.
#[expect(
    clippy::large_enum_variant,
    reason = "made once per turn and moved once"
)]
pub(super) enum TurnEnd {
    /// It is recorded.
    Complete,
    /// The call failed and is not retried.
    Failed(ModelError, Spent),
    /// The run was cancelled.
    Cancelled(RunCancelled, Spent),
    /// The process stops; another worker repeats the turn.
    Stopped,
}

impl Driver {
    /// Calls the model until a turn is complete or has failed. Retries only before any text was shown.
    pub(super) async fn turn(&mut self, plan: CallPlan) -> Result<TurnEnd, Abandon> {
        self.journal.set_status(RunStatus::Running);
        let mut plan = plan;
        let mut retries = 0;
        let mut clock = TurnClock {
            began: Instant::now(),
            attempts: 0,
        };
        // The event by which the fallback takes over from the last failed call.
        let mut spare = None;
        loop {
            plan = match self.fund(plan).await? {
                Funding::Paid(plan) => plan,
                Funding::Short(reason) => {
                    return self
                        .fall_back_or(spare, |driver| driver.run_short(reason))
                        .await;
                }
                Funding::Interrupted(interrupt) => {
                    return Ok(self.interrupted_by(interrupt, Spent::default()));
                }
            };
            let began = Instant::now();
            clock.attempts += 1;
            let attempt = given_back(self.attempt(plan).await?);
            let provider = &self.state.current_model().model.provider;
            METRICS.model_called(provider, attempt.outcome(), began.elapsed());
            match attempt {
                Attempt::Done(progress, done) => {
                    self.complete(plan, progress, done, &clock)?;
                    return Ok(TurnEnd::Complete);
                }
                Attempt::Interrupted(progress, mut interrupt) => {
                    self.record_attempt(progress.tokens, Billing::Possible);
                    if let TurnInterrupt::Cancel(receipt) = &mut interrupt {
                        receipt.interrupted.insert(0, "model".to_owned());
                    }
                    return Ok(self.interrupted_by(interrupt, progress.spent()));
                }
                Attempt::Broken(progress, error) => {
                    self.record_attempt(progress.tokens, progress.billing);
                    spare = run::fall_back(&self.state, &error);
                    let pause = backoff(retries, error.retry_after);
                    let most = match &spare {
                        Some(_) => retries_before_fallback(&error, plan.bid.as_ref()),
                        None => u32::MAX,
                    };
                    let most = most.min(self.parts.settings.model_retries);
                    let again = error.retryable && !progress.shown && retries < most;
                    if !again || pause > BACKOFF_LONGEST {
                        let failed = |_: &mut Self| TurnEnd::Failed(error, progress.spent());
                        return self.fall_back_or(spare, failed).await;
                    }
                    debug!(class = error.class.as_str(), ?pause, "model retry");
                    retries += 1;
                    if let Some(interrupt) = self.pause(pause).await? {
                        return Ok(self.interrupted_by(interrupt, progress.spent()));
                    }
                    if plan.bid.is_some() {
                        // The failed call may have cost money, so the next one is planned again.
                        let Step::CallModel(again) = run::next(&self.state) else {
                            return self.fall_back_or(spare, |_| TurnEnd::Complete).await;
                        };
                        plan = again;
                    }
                }
            }
        }
    }

    /// Performs a step that calls a model.
    pub(super) async fn model_step(&mut self, step: Step) -> Result<TurnEnd, Abandon> {
        let end = match step {
            Step::Compact(step) => self.compact(step).await?,
            Step::CallModel(plan) => self.turn(plan).await?,
            _ => TurnEnd::Complete,
        };
        match end {
            // The machine plans a shorter conversation.
            TurnEnd::Failed(error, _)
                if error.class == ErrorClass::ContextWindow && self.state.can_shrink() =>
            {
                self.note(Note::ContextOverflow {});
                Ok(TurnEnd::Complete)
            }
            end => Ok(end),
        }
    }

    /// A monthly budget cannot pay: the machine plans again without tools and with a smaller output, unless it has
    /// already.
    fn run_short(&mut self, reason: String) -> TurnEnd {
        if self.state.economising.is_some() {
            return TurnEnd::Failed(exceeded(reason), Spent::default());
        }
        self.note(Note::Economise { reason });
        TurnEnd::Complete
    }

    pub(super) fn interrupted_by(&self, interrupt: TurnInterrupt, spent: Spent) -> TurnEnd {
        match interrupt {
            TurnInterrupt::Cancel(receipt) => TurnEnd::Cancelled(*receipt, spent),
            TurnInterrupt::Stop => TurnEnd::Stopped,
            TurnInterrupt::OutOfTime => TurnEnd::Failed(self.out_of_time(), spent),
        }
    }

    /// One call, from the request to the end of its stream.
    async fn attempt(&mut self, plan: CallPlan) -> Result<Attempt, Abandon> {
        let mut progress = Progress::begin();
        let model = self.current_model();
        crash::point("before_model");
        let mut opening = model.call(request_of(&mut self.state, plan));
        let mut writing: Option<Writing> = None;
        let mut stream = loop {
            if self.journal.is_urgent() {
                self.begin_writing(&mut writing)?;
            }
            tokio::select! {
                // Writing comes first, so that the batch is on its way before a long request is encoded.
                biased;
                written = written(&mut writing) => { written?; }
                opened = &mut opening => match opened {
                    Ok(stream) => break stream,
                    Err(error) => {
                        finish_writing(&mut writing).await?;
                        progress.billing = billing_after(&error);
                        return Ok(Attempt::Broken(progress, error));
                    }
                },
                interrupt = self.interrupt() => if let Some(interrupt) = interrupt? {
                    finish_writing(&mut writing).await?;
                    return Ok(Attempt::Interrupted(progress, interrupt));
                },
            }
        };
        drop(opening);
        progress.billing = Billing::Possible;
        let end = self
            .read_stream(&mut stream, &mut progress, &mut writing)
            .await?;
        // Closes the connection to the provider.
        drop(stream);
        finish_writing(&mut writing).await?;
        Ok(match end {
            StreamEnd::Done(done) => Attempt::Done(progress, done),
            StreamEnd::Broken(error) => Attempt::Broken(progress, error),
            StreamEnd::Interrupted(interrupt) => Attempt::Interrupted(progress, interrupt),
        })
    }

    async fn read_stream(
        &mut self,
        stream: &mut ModelStream,
        progress: &mut Progress,
        writing: &mut Option<Writing>,
    ) -> Result<StreamEnd, Abandon> {
        // Created once per answer: registering and removing each of these futures takes a lock.
        let (notifier, parts) = (self.mailbox.notifier(), Arc::clone(&self.parts));
        let mut rung = pin!(notifier.rung());
        let mut interrupted = pin!(parts.shutdown.interrupted());
        let mut out_of_time = pin!(self.wall_clock());
        let mut throttle = DeltaThrottle::new(parts.write_permits.clone());
        // Mail may have arrived while the call was opened.
        if self.mailbox.has_rung()
            && let Some(interrupt) = self.mail_in_turn().await?
        {
            return Ok(StreamEnd::Interrupted(interrupt));
        }
        loop {
            let item = tokio::select! {
                biased;
                written = written(writing) => {
                    written?;
                    None
                }
                () = &mut rung => {
                    rung.set(notifier.rung());
                    self.mailbox.look();
                    match self.mail_in_turn().await? {
                        Some(interrupt) => return Ok(StreamEnd::Interrupted(interrupt)),
                        None => None,
                    }
                }
                () = &mut interrupted => return Ok(StreamEnd::Interrupted(TurnInterrupt::Stop)),
                () = &mut out_of_time => {
                    return Ok(StreamEnd::Interrupted(TurnInterrupt::OutOfTime));
                }
                () = throttle.due() => None,
                item = stream.next(), if self.reads(&throttle) => Some(item),
            };
            let mut read = item;
            // Everything that has arrived is written in one batch.
            while let Some(item) = read.take().or_else(|| self.arrived(stream, &throttle)) {
                if let Some(end) = self.take(item, progress)? {
                    return Ok(end);
                }
            }
            let wanted = writing.is_none() && !self.journal.is_clean();
            if wanted && (!self.journal.can_wait() || throttle.allows(self.journal.not_before())) {
                let permit = if self.journal.has_deltas() {
                    throttle.begin_deltas()
                } else {
                    throttle.begin()
                };
                *writing = Some(self.journal.begin(Next::Keep, permit)?);
            }
        }
    }

    /// Whether the provider's stream is read now.
    fn reads(&self, throttle: &DeltaThrottle) -> bool {
        self.journal.pending_bytes() < MAX_PENDING_BYTES && !throttle.is_waiting_for_permit()
    }

    /// An item that has arrived already.
    fn arrived(&self, stream: &mut ModelStream, throttle: &DeltaThrottle) -> Option<Option<Item>> {
        self.reads(throttle)
            .then(|| stream.next().now_or_never())
            .flatten()
    }

    /// Handles one item of the stream. Returns the end when the item is the last.
    fn take(
        &mut self,
        item: Option<Item>,
        progress: &mut Progress,
    ) -> Result<Option<StreamEnd>, Abandon> {
        let broken = |message: &str| {
            Ok(Some(StreamEnd::Broken(ModelError::new(
                ErrorClass::Server,
                message,
            ))))
        };
        let answers = |event: &ModelEvent| {
            matches!(
                event,
                ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::Call(_)
            )
        };
        if matches!(&item, Some(Ok(event)) if answers(event)) {
            progress.answered();
        }
        match item {
            Some(Ok(ModelEvent::Text(text))) => {
                if progress.text.len() + text.len() > MAX_TURN_BYTES {
                    return broken("the model's answer is larger than this server accepts");
                }
                if !text.is_empty() {
                    progress.shown = true;
                    progress.text.push_str(&text);
                    self.record(Event::AssistantDelta(TextDelta { text }))?;
                    crash::point("mid_stream");
                }
            }
            Some(Ok(ModelEvent::Thinking(text))) => {
                if !text.is_empty()
                    && self
                        .state
                        .plan
                        .reasoning_level
                        .is_some_and(|level| level > 0)
                {
                    progress.shown = true;
                    self.record(Event::ThinkingDelta(TextDelta { text }))?;
                }
            }
            Some(Ok(ModelEvent::Call(call))) => {
                if progress.calls.len() == MAX_CALLS {
                    return broken(
                        "the model made more calls in one turn than this server accepts",
                    );
                }
                if !fits_in_depth(&call.input) {
                    return Ok(Some(StreamEnd::Broken(too_deep(&call.name))));
                }
                progress.calls.push(call);
            }
            Some(Ok(ModelEvent::Usage(tokens))) => progress.tokens = tokens,
            Some(Ok(ModelEvent::Done(done))) => return Ok(Some(StreamEnd::Done(done))),
            Some(Err(error)) => return Ok(Some(StreamEnd::Broken(error))),
            None => return broken("the provider's stream ended without its final frame"),
        }
        Ok(None)
    }

    /// Records a complete turn. The draft is written with the next step.
    fn complete(
        &mut self,
        plan: CallPlan,
        mut progress: Progress,
        mut done: Done,
        clock: &TurnClock,
    ) -> Result<(), Abandon> {
        if !plan.tools_enabled && !progress.calls.is_empty() {
            // Calls of a turn without tools are not executed, so the log does not show them.
            progress.calls.clear();
            done.state = None;
            if done.finish_reason == finish_reason::TOOL_USE {
                done.finish_reason = finish_reason::END_TURN.to_owned();
            }
        }
        let suffix = self
            .state
            .plan
            .run
            .as_str()
            .trim_start_matches("run_")
            .to_owned();
        let call_ids = progress.calls.iter().map(|call| call.id.clone()).collect();
        let tool_calls: Vec<RequestedCall> = (1..)
            .zip(progress.calls)
            .map(|(place, call)| RequestedCall {
                id: format!("tu_{suffix}_{}_{place}", plan.turn),
                name: call.name,
                input: call.input,
            })
            .collect();
        let finish = if tool_calls.is_empty() || done.finish_reason != finish_reason::END_TURN {
            done.finish_reason
        } else {
            finish_reason::TOOL_USE.to_owned()
        };
        self.record(Event::AssistantMessage(AssistantMessage {
            text: progress.text,
            // On the wire turns count from 0.
            turn: plan.turn.saturating_sub(1),
            finish_reason: Some(finish),
            tool_calls,
            model: Some(self.state.current_model().model.id.clone()),
            tokens: Some(progress.tokens),
            cost_usd: self.price_of(&progress.tokens),
            duration_ms: Some(millis(clock.began.elapsed())),
            time_to_first_token_ms: progress.first_token.map(millis),
            attempts: Some(clock.attempts),
        }))?;
        self.account(&progress.tokens);
        self.note(Note::Turn {
            tokens: progress.tokens,
            call_ids,
            state: done.state,
            structured: done.structured,
        });
        crash::point("turn_done");
        Ok(())
    }

    fn begin_writing(&mut self, writing: &mut Option<Writing>) -> Result<(), Abandon> {
        if writing.is_none() && !self.journal.is_clean() {
            *writing = Some(self.journal.begin(Next::Keep, None)?);
        }
        Ok(())
    }
}

/// The request to the model.
fn request_of(state: &mut RunState, plan: CallPlan) -> ModelRequest {
    let messages = state.messages.whole();
    let fixed = &state.plan;
    ModelRequest {
        system: fixed.system.clone(),
        messages,
        tools: state.toolbox.declarations(),
        tools_enabled: plan.tools_enabled,
        reasoning_level: fixed.reasoning_level,
        output_schema: fixed.output.as_ref().map(|(schema, _)| schema.clone()),
        force_output: plan.force_output,
        max_output_tokens: plan.max_output_tokens,
        cache_key: fixed.run.as_str().into(),
    }
}

/// Treated as a malformed call: the model gets another chance.
fn too_deep(name: &str) -> ModelError {
    let message = format!(
        "the model called `{name}` with arguments nested deeper than {JSON_DEPTH_MAX} levels"
    );
    let mut error = ModelError::new(ErrorClass::Server, message);
    error.finish_reason = Some(finish_reason::MALFORMED_FUNCTION_CALL.to_owned());
    error
}

enum StreamEnd {
    Done(Done),
    Broken(ModelError),
    Interrupted(TurnInterrupt),
}

/// Waits for the current batch to be durable; forever when there is none.
async fn written(writing: &mut Option<Writing>) -> Result<(), Abandon> {
    match writing {
        Some(future) => {
            let result = future.await;
            *writing = None;
            result.map(drop)
        }
        None => std::future::pending().await,
    }
}

async fn finish_writing(writing: &mut Option<Writing>) -> Result<(), Abandon> {
    match writing.take() {
        Some(future) => future.await.map(drop),
        None => Ok(()),
    }
}
