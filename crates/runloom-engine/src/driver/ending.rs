//! The end of a run: the terminal event, the row of the run and the messages of its session in one batch.

use runloom_protocol::attachment::Attachment;
use runloom_protocol::event::{Event, Started, Terminal};
use runloom_protocol::outcome::{RunCancelled, Tokens};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{PromptMessage, RetainedCall, Role};
use runloom_protocol::tools::PROJECT_TOOL;
use tracing::{info, warn};

use super::delegate::without;
use super::{Abandon, Driver, Left, RunTail};
use crate::metrics::METRICS;
use crate::run::{self, Spent};
use runloom_ports::clock::rfc3339;
use runloom_ports::model::{Message, ModelError};
use runloom_ports::store::{Ending, Next};

/// Maximum characters of a failure's message in the log. The whole message is in the run's log.
const LOGGED_ERROR_CHARS: usize = 80;

/// Logs how a run ended; a failed run is a warning.
fn log_end(event: &Event, ending: &Ending) {
    match event {
        Event::Error(failed) => {
            let error: String = failed.error.chars().take(LOGGED_ERROR_CHARS).collect();
            warn!(
                class = failed.error_class.as_str(),
                provider = failed.model.provider,
                model = failed.model.id,
                error,
                "run failed"
            );
        }
        _ => info!(
            status = ending.status.as_str(),
            turns = ending.turns,
            "run ended"
        ),
    }
}

impl Driver {
    pub(super) async fn cancel(
        &mut self,
        mut receipt: RunCancelled,
        spent: Spent,
    ) -> Result<Left, Abandon> {
        if !self.state.started {
            self.record(Event::Started(Started {}))?;
        }
        self.cancel_below(&receipt).await?;
        receipt.stopped_at = Some(rfc3339(self.clock.now()));
        let event = run::cancelled(&self.state, receipt, &spent);
        self.finish(event).await
    }

    pub(super) async fn fail(&mut self, error: ModelError, spent: Spent) -> Result<Left, Abandon> {
        if !self.state.started {
            self.record(Event::Started(Started {}))?;
        }
        self.end_below().await?;
        let event = run::failed(&self.state, &error, &spent);
        self.finish(event).await
    }

    pub(super) async fn finish(&mut self, event: Event) -> Result<Left, Abandon> {
        let ending = self.ending(&event);
        log_end(&event, &ending);
        let below = self.state.below;
        let own_turns = ending.turns.saturating_sub(below.turns);
        let failing = own_turns.saturating_sub(self.state.turns);
        self.journal.count(&Tokens::default(), 0, failing);
        if self.planned.place.is_none() {
            self.journal.count_run();
        }
        self.tell_parent(&event, &ending);
        self.record(event)?;
        let (status, tokens) = (ending.status, without(ending.tokens, &below.tokens));
        let said = RunTail {
            messages: ending.session_messages.clone(),
            active_model: ending.active_model.clone(),
        };
        let committed = self.journal.leave(Next::Finish(Box::new(ending))).await?;
        if let Some(tracing) = self.tracing.take() {
            tracing.export();
        }
        METRICS.run_ended(status);
        METRICS.tokens_in.add(tokens.input_tokens);
        METRICS.tokens_cached.add(tokens.cached_tokens);
        METRICS.tokens_out.add(tokens.output_tokens);
        METRICS.tokens_reasoning.add(tokens.reasoning_tokens);
        Ok(Left::Finished {
            next: committed.next_in_session,
            said,
        })
    }

    fn ending(&self, event: &Event) -> Ending {
        let model = self.state.current_model().model.clone();
        let fell_back = self.run.in_session && self.state.fell_back();
        let mut ending = Ending {
            status: RunStatus::Failed,
            final_text: None,
            error: None,
            failure: None,
            cancel: None,
            tokens: self.state.tokens,
            turns: self.state.turns,
            active_model: fell_back.then(|| model.id.clone()),
            model,
            cost_usd: None,
            subagents: self.state.usage_below(),
            tool_calls: self.state.tool_calls,
            session_messages: Vec::new(),
        };
        match event.terminal() {
            Some(Terminal::Result(result)) => {
                ending.status = RunStatus::Succeeded;
                ending.final_text = Some(result.text.clone());
                (ending.tokens, ending.turns, ending.cost_usd) =
                    (result.tokens, result.turns, result.cost_usd);
                if self.run.in_session {
                    let retained = self.state.retained.clone();
                    ending.session_messages = said(&self.run.request, &result.text, retained);
                    if let Some(first) = ending.session_messages.first_mut() {
                        first.compacted.clone_from(&self.state.compacted);
                    }
                }
            }
            Some(Terminal::Error(error)) => {
                ending.error = Some(error.error.clone());
                ending.failure = Some(run::failure(error));
                ending.final_text = error.partial_text.clone();
                (ending.tokens, ending.turns, ending.cost_usd) =
                    (error.tokens, error.turns, error.cost_usd);
                ending.session_messages = self.unfinished(error.partial_text.as_deref());
            }
            Some(Terminal::Cancelled(receipt)) => {
                ending.status = RunStatus::Cancelled;
                (ending.tokens, ending.turns, ending.cost_usd) =
                    (receipt.tokens, receipt.turns, receipt.cost_usd);
                ending.cancel = Some(receipt.clone());
                ending.session_messages = self.unfinished(None);
            }
            None => {}
        }
        ending
    }

    /// The entry in the session for a run that did not succeed although it acted through the project tool.
    fn unfinished(&self, partial: Option<&str>) -> Vec<PromptMessage> {
        let kept = self.state.retained.iter();
        let pairs: Vec<RetainedCall> = kept
            .filter(|call| call.name == PROJECT_TOOL)
            .cloned()
            .collect();
        if !self.run.in_session {
            return Vec::new();
        }
        if pairs.is_empty() {
            return self.summary_alone().into_iter().collect();
        }
        let turns = self.state.messages.iter().skip(self.state.own_messages());
        let mut texts: Vec<&str> = turns
            .filter_map(|message| match message {
                Message::Assistant { text, .. } if !text.is_empty() => Some(&**text),
                _ => None,
            })
            .collect();
        let partial = partial.filter(|text| !text.is_empty() && texts.last() != Some(text));
        texts.extend(partial);
        let text = match texts.is_empty() {
            true => NO_ANSWER.to_owned(),
            false => texts.join("\n\n"),
        };
        let mut messages = said(&self.run.request, &text, pairs);
        for message in &mut messages {
            message.unfinished = true;
        }
        if let Some(first) = messages.first_mut() {
            first.compacted.clone_from(&self.state.compacted);
        }
        messages
    }

    /// A message without words that has the summary of a run which added nothing else.
    fn summary_alone(&self) -> Option<PromptMessage> {
        let compacted = self.state.compacted.clone()?;
        Some(PromptMessage {
            unfinished: true,
            compacted: Some(compacted),
            ..PromptMessage::new(Role::System, "")
        })
    }
}

/// The answer of a run that ended without text.
const NO_ANSWER: &str = "(no answer)";

/// What a run adds to its session: the request and the answer, with the retained results.
fn said(
    request: &[PromptMessage],
    answer: &str,
    retained: Vec<RetainedCall>,
) -> Vec<PromptMessage> {
    let asked = request
        .iter()
        .filter(|message| message.role != Role::System)
        .map(|message| PromptMessage {
            attachments: message.attachments.iter().map(Attachment::info).collect(),
            ..PromptMessage::new(message.role, message.content.as_str())
        });
    let answer = PromptMessage {
        retained,
        ..PromptMessage::new(Role::Assistant, answer)
    };
    asked.chain([answer]).collect()
}
