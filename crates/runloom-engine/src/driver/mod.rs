//! The driver: performs the machine's steps for one run, as long as this process holds its lease.
//!
//! Everything that happens is recorded first in the state and the journal's draft, together; the draft is durable before anything
//! outside may depend on it. A driver that cannot go on simply drops the run: the log says where it stands.

mod attempt;
mod defer;
mod delta_throttle;
mod ending;
mod execute;
mod fallback;
mod journal;
mod mailbox;
mod money;
mod toolset;
mod tracing;
mod turn;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::tracing::debug;
use runloom_protocol::event::{Event, LocalToolCall};
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::PromptMessage;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;
use crate::metrics::METRICS;
use crate::monthly_budgets::MonthlyBudget;
use crate::run::{self, Note, Plan, Record, RunState, Spent, Step};
use runloom_ports::clock::Clock;
use runloom_ports::crash;
use runloom_ports::file::FileReader;
use runloom_ports::model::{Model, ModelError};
use runloom_ports::store::{Claim, Ledger, MicroUsd, Millis, Next, OpenCall, RunLog, RunNo};
use runloom_ports::tools::{ToolContext, ToolHost};

pub(crate) use self::tracing::Tracing;
pub(crate) use delta_throttle::WritePermits;
pub(crate) use journal::{Abandon, CrashSuspicion, Journal};
pub use mailbox::MailNotifier;
use mailbox::Mailbox;
pub(crate) use mailbox::fold;
pub(crate) use toolset::meet_schemas;
use turn::TurnEnd;

/// Claims without getting any further after which a run is given up: it kills its workers.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// What drivers share.
#[derive(Debug, Clone)]
pub struct DriverSettings {
    /// How long a client has to answer a call.
    pub local_tool_timeout: Duration,
    /// How long a run waits for a client before it is parked.
    pub park_after: Duration,
    /// How often a model call is tried again before anything was shown.
    pub model_retries: u32,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self {
            local_tool_timeout: Duration::from_secs(300),
            park_after: Duration::from_secs(5),
            model_retries: 4,
        }
    }
}

/// One run under way.
pub(crate) struct Driver {
    pub(crate) state: RunState,
    pub(crate) journal: Journal,
    pub(crate) mailbox: Mailbox,
    pub(crate) model: Arc<dyn Model>,
    /// Who speaks instead once the state says so.
    pub(crate) fallback: Option<Arc<dyn Model>>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) files: Arc<dyn FileReader>,
    pub(crate) context: ToolContext,
    pub(crate) settings: DriverSettings,
    pub(crate) clock: Clock,
    pub(crate) started_at: Millis,
    pub(crate) request: Vec<PromptMessage>,
    /// The run is a message to a session, which hears what was said.
    pub(crate) in_session: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
    pub(crate) attempts: u32,
    /// Why the log could not be folded.
    pub(crate) unreadable: Option<String>,
    /// What pays for the calls, besides the run's own budget.
    pub(crate) monthly_budgets: Vec<MonthlyBudget>,
    /// What the call under way may cost, when a limit of money applies.
    pub(crate) reserved: Option<MicroUsd>,
    /// The turns in which this worker's answers write their deltas.
    pub(crate) turns: WritePermits,
    /// Why this process cannot plan the run, in words for its client.
    pub(crate) stalled: Option<String>,
    /// The run's trace, when it is traced.
    pub(crate) tracing: Option<Tracing>,
}

/// How a driver left its run.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// It is over.
    Finished {
        /// The session's next run, which wants a worker.
        next: Option<RunNo>,
        /// What the session was told.
        said: RunTail,
    },
    /// It was over before.
    Over,
    /// It waits for a client; nobody holds it.
    Parked(Option<Millis>),
    /// It cannot be planned here; it is tried again then.
    Deferred(Millis),
    /// The process stops; another worker goes on.
    Released,
}

/// What a session hears of a run at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTail {
    /// The request and the answer; nothing unless it succeeded.
    pub messages: Vec<PromptMessage>,
    /// Catalog id of the model that the session stays on from now on, when the run fell back.
    pub active_model: Option<String>,
}

impl Driver {
    /// Drives the run until it is over, parked or handed over.
    pub(crate) async fn drive(&mut self) -> Result<Left, Abandon> {
        // Whoever was cancelled is not also given up.
        if self.unreadable.is_none()
            && let Some(left) = self.read_mail().await?
        {
            return Ok(left);
        }
        if let Some(message) = self.hopeless() {
            let error = ModelError::new(ErrorClass::Server, message);
            return self.fail(error, Spent::default()).await;
        }
        if let Some(reason) = self.stalled.take() {
            return self.stall(&reason).await;
        }
        loop {
            if let Some(left) = self.read_mail().await? {
                return Ok(left);
            }
            match run::next(&self.state) {
                Step::Write(events) => {
                    for event in events {
                        self.record(event)?;
                    }
                }
                Step::Ask(calls) => self.ask(calls).await?,
                Step::Wait { deadline } => {
                    self.journal.flush().await?;
                    if let Some(left) = self.wait(Millis(deadline)).await? {
                        return Ok(left);
                    }
                }
                Step::CallModel(plan) => {
                    if self.stop.is_cancelled() {
                        return self.release().await;
                    }
                    match self.turn(plan).await? {
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
                    // A call that the end of the process would cut off is better never begun: its outcome would be unknown.
                    if self.stop.is_cancelled() {
                        return self.release().await;
                    }
                    if let Some(left) = self.execute(calls).await? {
                        return Ok(left);
                    }
                }
                Step::Finish(event) => return self.finish(event).await,
                Step::Over => return Ok(Left::Over),
            }
        }
    }

    /// Why the run cannot go on, whatever is tried.
    fn hopeless(&self) -> Option<String> {
        if let Some(error) = &self.unreadable {
            return Some(format!(
                "the log of the run cannot be read by this version: {error}"
            ));
        }
        (self.attempts > MAX_ATTEMPTS).then(|| {
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

    /// Folds what has its place in the log.
    fn apply(&mut self, record: Record) {
        if let Some(tracing) = &mut self.tracing {
            tracing.see(&record, self.clock.now_finely());
        }
        self.state.apply(record);
    }

    async fn ask(&mut self, calls: Vec<LocalToolCall>) -> Result<(), Abandon> {
        let timeout =
            i64::try_from(self.settings.local_tool_timeout.as_millis()).unwrap_or(i64::MAX);
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

    /// Waits for a client's answer: first here, then parked.
    async fn wait(&mut self, deadline: Millis) -> Result<Option<Left>, Abandon> {
        let wake_at = self
            .wall_deadline()
            .map_or(deadline, |wall| wall.min(deadline));
        let left = self.clock.until(wake_at);
        tokio::select! {
            () = self.mailbox.rung() => return Ok(None),
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(left.min(self.settings.park_after)) => {}
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
                    Vec::new(),
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
        let closed = late.iter().filter_map(call_of).collect();
        if self.journal.attempt(&late, closed, Next::Keep).await? {
            for event in late {
                self.apply(Record::Event(event));
            }
            self.resume_status();
        } else {
            self.mailbox.look();
        }
        Ok(None)
    }

    /// Folds in what others told the run.
    async fn read_mail(&mut self) -> Result<Option<Left>, Abandon> {
        let Some(mail) = self.mailbox.take(&self.kill).await? else {
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
        debug!("handing the run over");
        self.journal.leave(Next::Release).await?;
        Ok(Left::Released)
    }

    /// When `budgets.maxWallMs` is used up.
    fn wall_deadline(&self) -> Option<Millis> {
        let limit = i64::try_from(self.state.plan.budgets.max_wall_ms?).unwrap_or(i64::MAX);
        Some(Millis(self.started_at.0.saturating_add(limit)))
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
    if state.calls.iter().any(asked) {
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

/// What a driver is made from.
pub(crate) struct Start {
    pub(crate) claim: Claim,
    pub(crate) plan: Arc<Plan>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) fallback: Option<Arc<dyn Model>>,
    /// Catalog id of the model, when its session moved on to it after the run was accepted.
    pub(crate) moved_to: Option<Arc<str>>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) files: Arc<dyn FileReader>,
    pub(crate) context: ToolContext,
    pub(crate) request: Vec<PromptMessage>,
    pub(crate) notifier: Arc<MailNotifier>,
    pub(crate) monthly_budgets: Vec<MonthlyBudget>,
    pub(crate) suspicion: Option<CrashSuspicion>,
    pub(crate) turns: WritePermits,
    pub(crate) stalled: Option<String>,
    pub(crate) tracing: Option<Tracing>,
}

impl Driver {
    /// Folds a claimed run's log and makes its driver.
    pub(crate) fn new(
        start: Start,
        (log, ledger): (Arc<dyn RunLog>, Arc<dyn Ledger>),
        hub: &Arc<Hub>,
        settings: DriverSettings,
        tokens: (CancellationToken, CancellationToken),
    ) -> Self {
        let Start {
            claim,
            plan,
            model,
            fallback,
            moved_to,
            tools,
            files,
            context,
            request,
            notifier,
            monthly_budgets,
            suspicion,
            turns,
            stalled,
            mut tracing,
        } = start;
        let (stop, kill) = tokens;
        let live = hub.open(&claim.id, claim.lease.run, claim.workspace);
        let last_seq = claim
            .log
            .iter()
            .map(|entry| entry.chunk.last_seq)
            .max()
            .unwrap_or(0);
        let mut state = RunState::new(plan);
        let mut unreadable = None;
        for entry in &claim.log {
            let seen = |record: &Record| {
                if let Some(tracing) = &mut tracing {
                    tracing.see(record, entry.at.into());
                }
            };
            if let Err(error) = fold(&mut state, entry, seen) {
                unreadable.get_or_insert(error.to_string());
            }
        }
        let mut journal = Journal::new(
            (Arc::clone(&log), ledger),
            live,
            claim.lease,
            last_seq,
            kill.clone(),
        );
        // What the row says follows from the log. Writing it again would cost every claim a commit.
        journal.status = Some(status_of(&state));
        journal.suspicion = suspicion;
        journal.speaker = fallback::accounted(&state).or(moved_to);
        Self {
            state,
            journal,
            mailbox: Mailbox::new(log, claim.lease.run, notifier, claim.mail),
            model,
            fallback,
            tools,
            files,
            context,
            settings,
            clock: Clock,
            started_at: claim.started_at,
            request,
            in_session: claim.in_session,
            stop,
            kill,
            attempts: claim.attempts,
            unreadable,
            monthly_budgets,
            reserved: None,
            turns,
            stalled,
            tracing,
        }
    }
}
