//! Children of the run: started in the parent's batch, waited for while the parent is parked, stopped with the parent.

use std::time::Duration;

use runloom_protocol::event::{Event, Terminal, ToolCall, ToolResult};
use runloom_protocol::id::ApprovalId;
use runloom_protocol::outcome::{RunCancelled, Tokens};
use tokio::time::Instant;
use tracing::debug;

use super::commit::Attempted;
use super::execute::EndedCall;
use super::journal::Closed;
use super::{Abandon, Driver, Left};
use crate::metrics::METRICS;
use crate::planner::ParentRun;
use crate::run::{self, DelegateCall, Note, Record, Spent};
use runloom_ports::crash;
use runloom_ports::store::{
    Ending, MailBody, MicroUsd, Millis, NewSubRun, Next, RunNo, SubRunEnded, SubRunOutcome, SubRuns,
};
use runloom_ports::tools::Outcome;

/// Time that a run which ends gives its children to end before it.
const WAIT_FOR_SUB_RUNS: Duration = Duration::from_secs(5);

/// Interval after which a parked parent checks its children although no mail came.
const LOOK_AGAIN_MS: i64 = 3_600_000;

/// The `cancelled` reason of runs below a cancelled run.
const PARENT_CANCELLED: &str = "parent_cancelled";

/// The `cancelled` reason of runs below a run that ended in another way.
const PARENT_ENDED: &str = "parent_ended";

impl Driver {
    /// Starts a child for each call: children, calls and events are one batch.
    pub(super) async fn delegate(&mut self, calls: Vec<DelegateCall>) -> Result<(), Abandon> {
        self.journal.flush().await?;
        let mut planned = Vec::new();
        for call in calls {
            match self.plan_sub_run(&call).await {
                Ok(child) => planned.push((call, child)),
                Err(error) => {
                    debug!(delegate = call.delegate.name, %error, "child not planned");
                    let child = crate::derived_ids::sub_run_id(&self.state.plan.run, &call.id);
                    let message = error.to_string();
                    let text = run::sub_run_failed(&child, "invalid_request", &message);
                    self.refuse_call(&call, text)?;
                }
            }
        }
        while !planned.is_empty() {
            self.journal.flush().await?;
            let events = self.start_events(&planned);
            let sub_runs = SubRuns {
                root: self.root(),
                max_below_root: self.state.plan.place.max_sub_runs,
                new: planned.iter().map(|(_, child)| child.clone()).collect(),
            };
            match self.journal.create_sub_runs(&events, sub_runs).await? {
                Attempted::NoRoom(room) => {
                    let room = usize::try_from(room).unwrap_or(usize::MAX);
                    for (call, _) in planned.split_off(room.min(planned.len() - 1)) {
                        let max = self.state.plan.place.max_sub_runs;
                        self.refuse_call(&call, run::too_many(max))?;
                    }
                }
                Attempted::Written | Attempted::MailWaits => {
                    METRICS.sub_runs.add(planned.len() as u64);
                    for event in events {
                        self.apply(Record::Event(event));
                    }
                    crash::point("after_delegate");
                    break;
                }
            }
        }
        Ok(())
    }

    async fn plan_sub_run(&self, call: &DelegateCall) -> runloom_ports::error::Result<NewSubRun> {
        let state = &self.state;
        let cap = state.plan.budgets.max_cost_usd.map(MicroUsd::from_usd);
        let parent = ParentRun {
            planned: &self.planned,
            run: self.journal.run(),
            known_below: state.known_below(),
            output_tokens_left: state.output_tokens_left(),
            money_below: cap.map(|cap| cap.minus(state.own_spent())),
            sampled: match &self.tracing {
                Some(_) => true,
                None => self.planned.origin.trace.is_some_and(|it| it.sampled),
            },
        };
        self.parts.sub_runs.sub_run(&parent, call).await
    }

    /// The events of a batch that creates children.
    fn start_events(&self, planned: &[(DelegateCall, NewSubRun)]) -> Vec<Event> {
        let events = planned.iter().flat_map(|(call, child)| {
            let start = self.state.sub_run_started(call, &child.id, &child.model_id);
            let call = ToolCall {
                tool_use_id: call.id.clone(),
                name: call.delegate.name.clone(),
                input: call.input.clone(),
            };
            [Event::ToolCall(call), Event::Subagent(start)]
        });
        events.collect()
    }

    fn refuse_call(&mut self, call: &DelegateCall, text: String) -> Result<(), Abandon> {
        self.record(Event::ToolResult(ToolResult {
            tool_use_id: call.id.clone(),
            name: call.delegate.name.clone(),
            ok: false,
            summary: text.chars().take(160).collect(),
            result: text,
            metadata: None,
            duration_ms: None,
        }))
    }

    fn root(&self) -> RunNo {
        let place = self.planned.place.as_ref();
        place.map_or(self.journal.run(), |place| RunNo(place.root))
    }

    /// Notifies all ancestors that this child waits for approvals. Does nothing for a root.
    pub(super) fn tell_paused(&mut self, approvals: Vec<ApprovalId>) {
        let Some(place) = self.planned.place.clone() else {
            return;
        };
        let name = self.planned.origin.name.clone().unwrap_or_default();
        let mut paused = self.state.paused(&place.parent, &name, &place.tool_use_id);
        paused.approval_ids = approvals.iter().map(ToString::to_string).collect();
        self.journal.forward(Event::Subagent(paused));
    }

    /// Records an event of a run below. The first approval below a child pauses the child, too.
    pub(super) fn accept_forwarded(&mut self, event: Event) -> Result<(), Abandon> {
        let waited = self.state.awaits_approval();
        let approval = if let Event::ApprovalRequested(request) = &event {
            Some(request.approval_id.clone())
        } else {
            None
        };
        self.record(event)?;
        if !waited && let Some(approval) = approval {
            self.tell_paused(vec![approval]);
        }
        Ok(())
    }

    /// Parks the run until a child ends. It returns its run slot at once: its children may need it.
    pub(super) async fn await_sub_runs(&mut self) -> Result<Option<Left>, Abandon> {
        self.journal.flush().await?;
        let now = self.clock.now();
        if self.wall_deadline().is_some_and(|wall| wall <= now) {
            let left = self.fail(self.out_of_time(), Spent::default()).await?;
            return Ok(Some(left));
        }
        let again = Millis(now.0.saturating_add(LOOK_AGAIN_MS));
        let wake_at = self.wall_deadline().map_or(again, |wall| wall.min(again));
        let next = Next::Park {
            wake_at: Some(wake_at),
        };
        if self.journal.attempt(&[], Closed::default(), next).await? {
            return Ok(Some(Left::Parked(Some(wake_at))));
        }
        self.mailbox.look();
        Ok(None)
    }

    /// Records the end of a child. The end of a child that no call waits for changes nothing.
    pub(super) fn sub_run_ended(&mut self, end: &SubRunEnded) -> Result<(), Abandon> {
        let Some(ended) = self.state.sub_run_ended(end) else {
            return Ok(());
        };
        self.record(Event::Subagent(ended.event))?;
        self.note(Note::SubRun { usage: end.usage });
        let outcome = Outcome {
            content: ended.content,
            is_error: ended.is_error,
            files: Vec::new(),
            report: None,
        };
        self.record_outcome(EndedCall {
            id: end.tool_use_id.clone(),
            name: ended.name,
            outcome,
            took: None,
        })?;
        crash::point("sub_run_ended");
        Ok(())
    }

    /// The receipt of a cancel that was noted before this process had the run.
    pub(super) fn noted_cancel(&self) -> Option<RunCancelled> {
        let stopping = self.state.stopping.clone()?;
        Some(RunCancelled {
            reason: stopping.reason,
            requested_at: stopping.requested_at,
            stopped_at: None,
            interrupted: stopping.interrupted,
            tokens: self.state.tokens,
            turns: self.state.turns,
            model: None,
            cost_usd: None,
            subagents: None,
        })
    }

    /// Stops the runs below a cancelled run and waits for them. The cancel is noted, so that it survives this process.
    pub(super) async fn cancel_below(&mut self, receipt: &RunCancelled) -> Result<(), Abandon> {
        if self.state.live_sub_runs().next().is_none() {
            return Ok(());
        }
        if self.state.stopping.is_none() {
            self.note(Note::Stopping {
                reason: receipt.reason.clone(),
                requested_at: receipt.requested_at.clone(),
                interrupted: receipt.interrupted.clone(),
            });
        }
        self.stop_below(PARENT_CANCELLED).await
    }

    /// Stops the runs below a run that fails and waits for them.
    pub(super) async fn end_below(&mut self) -> Result<(), Abandon> {
        if self.state.live_sub_runs().next().is_none() {
            return Ok(());
        }
        self.stop_below(PARENT_ENDED).await
    }

    async fn stop_below(&mut self, reason: &str) -> Result<(), Abandon> {
        self.journal.stop_below(reason);
        self.journal.flush().await?;
        let until = Instant::now() + WAIT_FOR_SUB_RUNS;
        while self.state.live_sub_runs().next().is_some() {
            tokio::select! {
                () = self.mailbox.rung() => {}
                () = tokio::time::sleep_until(until) => return Ok(()),
                () = self.parts.shutdown.interrupted() => return Err(Abandon::Interrupted),
            }
            if let Some(mail) = self.mailbox.take(&self.parts.shutdown).await? {
                // The run ends already, so other mail is accepted without effect.
                self.accept(mail)?;
                self.journal.flush().await?;
            }
        }
        Ok(())
    }

    /// Sends the outcome of the run to its parent. Does nothing for a root.
    pub(super) fn tell_parent(&mut self, event: &Event, ending: &Ending) {
        let Some(place) = self.planned.place.clone() else {
            return;
        };
        let outcome = match event.terminal() {
            Some(Terminal::Result(result)) => SubRunOutcome::Completed(result.text.clone()),
            Some(Terminal::Error(error)) => SubRunOutcome::Errored {
                message: error.error.clone(),
                error_class: error.error_class.as_str().to_owned(),
            },
            Some(Terminal::Cancelled(receipt)) => SubRunOutcome::Errored {
                message: format!("the run was cancelled: {}", receipt.reason),
                error_class: "cancelled".to_owned(),
            },
            None => return,
        };
        let below = self.state.below;
        let own = without(ending.tokens, &below.tokens);
        let turns = ending.turns.saturating_sub(below.turns);
        let ended = SubRunEnded {
            tool_use_id: place.tool_use_id.clone(),
            run_id: self.state.plan.run.clone(),
            outcome,
            model: ending.model.clone(),
            usage: self.state.tree_usage(own, turns),
        };
        let body = MailBody::SubRunEnded(Box::new(ended));
        self.journal.send(place.parent_no(), body);
    }
}

/// A sum without a part of it.
pub(super) fn without(sum: Tokens, part: &Tokens) -> Tokens {
    Tokens {
        input_tokens: sum.input_tokens.saturating_sub(part.input_tokens),
        cached_tokens: sum.cached_tokens.saturating_sub(part.cached_tokens),
        reasoning_tokens: sum.reasoning_tokens.saturating_sub(part.reasoning_tokens),
        output_tokens: sum.output_tokens.saturating_sub(part.output_tokens),
    }
}
