//! The driver: performs the steps of one run, as long as this process holds its lease.
//!
//! Every record goes to the state and to the journal's draft together. The draft is durable before anything outside
//! may depend on it. A driver that cannot continue drops the run; the log has its state.

mod approvals;
mod attempt;
mod commit;
mod compaction;
mod defer;
mod delegate;
mod delta_throttle;
mod ending;
mod execute;
mod fallback;
mod interrupt;
mod journal;
mod judging;
mod mailbox;
mod money;
mod start;
mod toolset;
mod tracing;
mod turn;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::tracing::debug;
use runloom_protocol::approval::ApprovalStatus;
use runloom_protocol::event::{Event, LocalToolCall};
use runloom_protocol::limits::APPROVAL_TIMEOUT_MS_DEFAULT;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::PromptMessage;

use crate::hub::Hub;
use crate::metrics::METRICS;
use crate::planner::{PlanSubRuns, Planned};
use crate::run::{self, Note, Record, RunState, Spent, Step};
use runloom_ports::call_policy::CallPolicy;
use runloom_ports::clock::Clock;
use runloom_ports::crash;
use runloom_ports::file::FileReader;
use runloom_ports::model::ModelError;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::{Claim, Ledger, MicroUsd, Millis, Next, OpenCall, RunLog, RunNo};
use runloom_ports::tools::{ToolContext, ToolHost};

pub(crate) use self::tracing::Tracing;
pub(crate) use delta_throttle::WritePermits;
pub use journal::{Abandon, WakeRuns};
pub(crate) use journal::{Closed, CrashSuspicion, Journal};
pub use mailbox::MailNotifier;
use mailbox::Mailbox;
#[cfg(test)]
pub(crate) use mailbox::fold;
pub(crate) use toolset::compile_schemas;
use turn::TurnEnd;

/// Claims without progress after which a run fails, because it probably crashes its workers.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// Settings of all drivers.
#[derive(Debug, Clone)]
pub struct DriverSettings {
    /// Time that a client has to return the result of a client tool.
    pub local_tool_timeout: Duration,
    /// Time that a run waits for its client before it is parked.
    pub park_after: Duration,
    /// How long an approval stays open when its rule does not say.
    pub approval_timeout: Duration,
    /// Retries of a model call before any of its text was shown.
    pub model_retries: u32,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self {
            local_tool_timeout: Duration::from_secs(300),
            park_after: Duration::from_secs(5),
            approval_timeout: Duration::from_millis(APPROVAL_TIMEOUT_MS_DEFAULT),
            model_retries: 4,
        }
    }
}

impl DriverSettings {
    /// [`Self::approval_timeout`] in milliseconds.
    fn approval_timeout_ms(&self) -> i64 {
        i64::try_from(self.approval_timeout.as_millis()).unwrap_or(i64::MAX)
    }
}

/// What the drivers of a worker share.
pub(crate) struct DriverParts {
    pub(crate) log: Arc<dyn RunLog>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) files: Arc<dyn FileReader>,
    pub(crate) settings: DriverSettings,
    /// The permits to write deltas.
    pub(crate) write_permits: WritePermits,
    pub(crate) shutdown: Shutdown,
    /// Plans the children of runs.
    pub(crate) sub_runs: Arc<dyn PlanSubRuns>,
    /// Wakes the runs that a batch sends mail to.
    pub(crate) waker: Arc<dyn WakeRuns>,
    /// Judges the calls of plans that ask for it.
    pub(crate) call_policy: Option<Arc<dyn CallPolicy>>,
}

/// What a driver starts with: a claimed run and its plan.
pub(crate) struct Start {
    pub(crate) claim: Claim,
    pub(crate) planned: Planned,
    /// The request's own messages.
    pub(crate) request: Vec<PromptMessage>,
    pub(crate) notifier: Arc<MailNotifier>,
    /// Catalog id of the model, when the session changed to it after the run was accepted.
    pub(crate) changed_model: Option<Arc<str>>,
    /// Held by a crash suspect until it makes progress.
    pub(crate) suspicion: Option<CrashSuspicion>,
    /// Why this process cannot plan the run, in words for its client.
    pub(crate) deferral: Option<String>,
    /// The trace of the run, when it is traced.
    pub(crate) tracing: Option<Tracing>,
}

/// The driver of one run.
pub(crate) struct Driver {
    pub(crate) state: RunState,
    pub(crate) journal: Journal,
    pub(crate) mailbox: Mailbox,
    parts: Arc<DriverParts>,
    planned: Planned,
    run: ClaimedRun,
    context: ToolContext,
    clock: Clock,
    /// Why the log could not be folded.
    unreadable: Option<String>,
    /// Why this process cannot plan the run, in words for its client.
    deferral: Option<String>,
    /// The reservation of the current model call, when a limit of money applies.
    reserved: Option<MicroUsd>,
    /// The trace of the run, when it is traced.
    tracing: Option<Tracing>,
}

/// Facts of a run that its driver does not change.
struct ClaimedRun {
    started_at: Millis,
    attempts: u32,
    /// The run is a message to a session, which gets the request and the answer.
    in_session: bool,
    /// The request's own messages.
    request: Vec<PromptMessage>,
}

/// How a driver left its run.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// The terminal event is written.
    Finished {
        /// The next run of the session, which waits for a worker.
        next: Option<RunNo>,
        /// What was added to the session.
        said: RunTail,
    },
    /// The terminal event was written before.
    Over,
    /// The lease is returned until the client answers or this timer is due.
    Parked(Option<Millis>),
    /// The lease is returned until this time, because the run cannot be planned here.
    Deferred(Millis),
    /// The lease is returned because the process stops.
    Released,
}

/// What a run adds to its session at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTail {
    /// The request and the answer; empty unless the run succeeded.
    pub messages: Vec<PromptMessage>,
    /// Catalog id of the model that the session uses from now on, when the run fell back.
    pub active_model: Option<String>,
}

impl Driver {
    /// Drives the run until it is finished, parked, deferred or released.
    pub(crate) async fn drive(&mut self) -> Result<Left, Abandon> {
        // A cancelled run ends as cancelled, even after too many attempts.
        if self.unreadable.is_none()
            && let Some(left) = self.read_mail().await?
        {
            return Ok(left);
        }
        if let Some(receipt) = self.noted_cancel() {
            return self.cancel(receipt, Spent::default()).await;
        }
        if let Some(message) = self.hopeless() {
            let error = ModelError::new(ErrorClass::Server, message);
            return self.fail(error, Spent::default()).await;
        }
        if let Some(reason) = self.deferral.take() {
            return self.defer(&reason).await;
        }
        loop {
            if let Some(left) = self.read_mail().await? {
                return Ok(left);
            }
            match run::next(&self.state) {
                Step::Write(events) => events.into_iter().try_for_each(|it| self.record(it))?,
                Step::Ask(calls) => self.ask(calls).await?,
                Step::RequestApprovals(asks) => self.request_approvals(asks).await?,
                Step::Judge(calls) => {
                    if let Some(left) = self.judge_calls(calls).await? {
                        return Ok(left);
                    }
                }
                Step::Wait { deadline } => {
                    self.journal.flush().await?;
                    if let Some(left) = self.wait(Millis(deadline)).await? {
                        return Ok(left);
                    }
                }
                step @ (Step::CallModel(_) | Step::Compact(_)) => {
                    if self.parts.shutdown.is_draining() {
                        return self.release().await;
                    }
                    match self.model_step(step).await? {
                        TurnEnd::Complete => {}
                        TurnEnd::Failed(error, spent) => return self.fail(error, spent).await,
                        TurnEnd::Cancelled(receipt, spent) => {
                            return self.cancel(receipt, spent).await;
                        }
                        TurnEnd::Stopped => return self.release().await,
                    }
                }
                Step::Economise(reason) => self.note(Note::Economise { reason }),
                Step::ResolveTools => {
                    if let Some(left) = self.resolve_tools().await? {
                        return Ok(left);
                    }
                }
                Step::Execute(calls) => {
                    // A call that the shutdown interrupts would have an unknown outcome.
                    if self.parts.shutdown.is_draining() {
                        return self.release().await;
                    }
                    if let Some(left) = self.execute(calls).await? {
                        return Ok(left);
                    }
                }
                Step::Delegate(calls) => {
                    if self.parts.shutdown.is_draining() {
                        return self.release().await;
                    }
                    self.delegate(calls).await?;
                }
                Step::AwaitSubRuns => {
                    if let Some(left) = self.await_sub_runs().await? {
                        return Ok(left);
                    }
                }
                Step::Finish(event) => return self.finish(event).await,
                Step::Over => return Ok(Left::Over),
            }
        }
    }

    /// Why no worker can continue the run.
    fn hopeless(&self) -> Option<String> {
        if let Some(error) = &self.unreadable {
            return Some(format!(
                "the log of the run cannot be read by this version: {error}"
            ));
        }
        (self.run.attempts > MAX_ATTEMPTS).then(|| {
            format!("the run was interrupted {MAX_ATTEMPTS} times without getting any further")
        })
    }

    /// Records an event in the state and in the draft.
    fn record(&mut self, event: Event) -> Result<(), Abandon> {
        self.journal.event(&event)?;
        self.apply(Record::Event(event));
        Ok(())
    }

    fn note(&mut self, note: Note) {
        self.journal.note(note.clone());
        self.apply(Record::Note(note));
    }

    /// Folds a record that is in the log or in the draft.
    fn apply(&mut self, record: Record) {
        if let Some(tracing) = &mut self.tracing {
            tracing.see(&record, self.clock.now_finely());
        }
        self.state.apply(record);
    }

    async fn ask(&mut self, calls: Vec<LocalToolCall>) -> Result<(), Abandon> {
        let by_setting = self.parts.settings.local_tool_timeout.as_millis();
        let timeout = match self.state.plan.client_timeout_ms {
            Some(timeout) => i64::try_from(timeout),
            None => i64::try_from(by_setting),
        };
        let timeout = timeout.unwrap_or(i64::MAX);
        let deadline = Millis(self.clock.now().0.saturating_add(timeout));
        METRICS.client_calls.add(calls.len() as u64);
        for call in calls {
            let tool_use_id = call.tool_use_id.clone();
            self.record(Event::LocalToolCall(call))?;
            self.note(Note::Asked {
                tool_use_id: tool_use_id.clone(),
                deadline: deadline.0,
            });
            self.journal.open_call(OpenCall {
                tool_use_id,
                deadline,
            });
        }
        self.journal.set_status(RunStatus::WaitingTool);
        self.journal.flush().await?;
        crash::point("after_ask");
        Ok(())
    }

    /// Waits for the client's result or a person's decision: for a while here, then parked.
    async fn wait(&mut self, deadline: Millis) -> Result<Option<Left>, Abandon> {
        let wake_at = self
            .wall_deadline()
            .map_or(deadline, |wall| wall.min(deadline));
        let left = self.clock.until(wake_at);
        tokio::select! {
            () = self.mailbox.rung() => return Ok(None),
            () = self.parts.shutdown.draining() => {}
            () = tokio::time::sleep(left.min(self.parts.settings.park_after)) => {}
        }
        let now = self.clock.now();
        if self.wall_deadline().is_some_and(|wall| wall <= now) {
            return self
                .fail(self.out_of_time(), Spent::default())
                .await
                .map(Some);
        }
        let late = run::expire(&self.state, now.0);
        if late.is_empty() {
            let parked = self
                .journal
                .attempt(
                    &[],
                    Closed::default(),
                    Next::Park {
                        wake_at: Some(wake_at),
                    },
                )
                .await?;
            if parked {
                return Ok(Some(Left::Parked(Some(wake_at))));
            }
            self.mailbox.look();
            return Ok(None);
        }
        let closed = Closed {
            calls: late.iter().filter_map(call_of).collect(),
            approvals: late.iter().filter_map(approvals::expired).collect(),
        };
        let expired = closed.approvals.len();
        if self.journal.attempt(&late, closed, Next::Keep).await? {
            for _ in 0..expired {
                METRICS.approval_decided(ApprovalStatus::Expired);
            }
            for event in late {
                self.apply(Record::Event(event));
            }
            self.resume_status();
        } else {
            self.mailbox.look();
        }
        Ok(None)
    }

    /// Folds the mail of the run.
    async fn read_mail(&mut self) -> Result<Option<Left>, Abandon> {
        let Some(mail) = self.mailbox.take(&self.parts.shutdown).await? else {
            return Ok(None);
        };
        if let Some(receipt) = self.accept(mail)? {
            return self.cancel(receipt, Spent::default()).await.map(Some);
        }
        self.resume_status();
        Ok(None)
    }

    fn resume_status(&mut self) {
        self.journal.set_status(status_of(&self.state));
    }

    async fn release(&mut self) -> Result<Left, Abandon> {
        debug!("run released");
        self.journal.leave(Next::Release).await?;
        Ok(Left::Released)
    }

    /// The time at which `budgets.maxWallMs` is used up.
    fn wall_deadline(&self) -> Option<Millis> {
        let limit = i64::try_from(self.state.plan.budgets.max_wall_ms?).unwrap_or(i64::MAX);
        Some(Millis(self.run.started_at.0.saturating_add(limit)))
    }

    /// Resolves when `budgets.maxWallMs` is used up, if there is such a limit.
    fn wall_clock(&self) -> impl Future<Output = ()> + use<> {
        let left = self
            .wall_deadline()
            .map(|deadline| self.clock.until(deadline));
        async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    fn out_of_time(&self) -> ModelError {
        let limit = self.state.plan.budgets.max_wall_ms.unwrap_or_default();
        let mut error = ModelError::new(
            ErrorClass::LocalTimeout,
            format!("budgets.maxWallMs ({limit} ms) is used up"),
        );
        error.retryable = false;
        error
    }
}

/// The status of a run that is not over.
fn status_of(state: &RunState) -> RunStatus {
    let asked = |call: &run::Call| matches!(call.state, run::CallState::Asked { .. });
    if state.awaits_approval() {
        RunStatus::WaitingApproval
    } else if state.calls.iter().any(asked) {
        RunStatus::WaitingTool
    } else {
        RunStatus::Running
    }
}

fn call_of(event: &Event) -> Option<String> {
    if let Event::LocalToolResultIn(result) = event {
        return Some(result.tool_use_id.clone());
    }
    None
}
