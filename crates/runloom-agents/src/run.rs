//! Runs as streams of traces.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use runloom_engine::driver::{Abandon, DriverSettings, Left, MailNotifier, WakeRuns};
use runloom_engine::embedded::{EmbeddedDriver, EmbeddedParts};
use runloom_engine::live_catalog::LiveCatalog;
use runloom_engine::monthly_budgets::MonthlyBudgets;
use runloom_engine::planner::Planner;
use runloom_ports::agents::Agents;
use runloom_ports::call_policy::CallPolicy;
use runloom_ports::clock::Clock;
use runloom_ports::store::{Ledger, Millis, RunLog, RunNo};
use runloom_protocol::event::{ApprovalRequested, Event, Terminal};
use runloom_protocol::id::RunId;
use runloom_protocol::limits::{APPROVAL_TIMEOUT_MS_MAX, MAX_TOOL_TURNS_DEFAULT};
use runloom_protocol::outcome::{ErrorClass, ModelInfo, SubagentUsage, Tokens};
use runloom_schema::SchemaCache;

use crate::agent::Agent;
use crate::assembly::Assembly;
use crate::checkpoint::{ApprovalDecision, Checkpoint};
use crate::host::{InProcessHost, NothingSealed, PlainFiles};
use crate::memory_log::MemoryLog;
use crate::trace::Trace;

/// Runs that a root may have below it.
const MAX_SUB_RUNS: u32 = 64;

/// How a run ended. Tokens and turns are sums over the run and all runs below it.
#[derive(Debug, Clone)]
pub enum RunEnd {
    /// With an answer.
    Completed {
        /// The final text.
        text: String,
        /// Sum of tokens.
        tokens: Tokens,
        /// Sum of model calls.
        turns: u32,
        /// The model that gave the answer.
        model: ModelInfo,
        /// The part of the runs below; `None` without any.
        subagents: Option<SubagentUsage>,
    },
    /// Waiting for decisions. Nothing is under way.
    Paused {
        /// What [`crate::Agent::resume`] continues.
        checkpoint: Box<Checkpoint>,
        /// The approvals of all depths that wait.
        pending: Vec<ApprovalRequested>,
    },
    /// With an error.
    Failed {
        /// The message.
        error: String,
        /// Its class.
        class: ErrorClass,
        /// Sum of tokens.
        tokens: Tokens,
        /// Sum of model calls.
        turns: u32,
    },
    /// Cancelled.
    Cancelled {
        /// Sum of tokens.
        tokens: Tokens,
        /// Sum of model calls.
        turns: u32,
    },
}

impl RunEnd {
    fn failed(error: String, class: ErrorClass) -> Self {
        Self::Failed {
            error,
            class,
            tokens: Tokens::default(),
            turns: 0,
        }
    }

    fn of(event: &Event) -> Option<Self> {
        Some(match event.terminal()? {
            Terminal::Result(result) => Self::Completed {
                text: result.text.clone(),
                tokens: result.tokens,
                turns: result.turns,
                model: result.model.clone(),
                subagents: result.subagents,
            },
            Terminal::Error(error) => Self::Failed {
                error: error.error.clone(),
                class: error.error_class,
                tokens: error.tokens,
                turns: error.turns,
            },
            Terminal::Cancelled(receipt) => Self::Cancelled {
                tokens: receipt.tokens,
                turns: receipt.turns,
            },
        })
    }
}

type Drive =
    Pin<Box<dyn Future<Output = (RunNo, Arc<MailNotifier>, Result<Left, Abandon>)> + Send>>;

/// A run: a stream of the events of its whole tree. It advances only while it is polled, inside a Tokio runtime, and
/// dropping it cancels everything below it.
pub struct Run {
    log: MemoryLog,
    driver: Arc<EmbeddedDriver>,
    active: FuturesUnordered<Drive>,
    timer: Option<(Millis, Pin<Box<tokio::time::Sleep>>)>,
    end: Option<RunEnd>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Cancels a run from elsewhere.
#[derive(Clone)]
pub struct Canceller(MemoryLog);

impl Canceller {
    /// Asks the run and all runs below it to stop. The run ends as [`RunEnd::Cancelled`] while it is polled.
    pub fn cancel(&self) {
        self.0.cancel(Clock.now());
    }
}

impl Agent {
    /// A run with this prompt. Nothing happens before it is polled; dropping it cancels it.
    pub fn run(&self, prompt: impl Into<String>) -> Run {
        Run::start(Assembly::of(self), &prompt.into())
    }

    /// Continues a paused run with these decisions. Approvals without a decision stay pending. The agent must be
    /// built as it was for the first part of the run. A decision about an approval that is not pending, or two that
    /// differ, end the run as failed before anything is executed.
    #[must_use]
    pub fn resume(&self, checkpoint: Checkpoint, decisions: Vec<ApprovalDecision>) -> Run {
        Run::resume(Assembly::of(self), checkpoint, decisions)
    }
}

impl Run {
    pub(crate) fn start(assembly: Assembly, prompt: &str) -> Self {
        let log = MemoryLog::default();
        let id = RunId::from_suffix(Clock.new_id());
        log.create(id, &assembly.stored(prompt), Clock.now());
        Self::new(log, assembly)
    }

    pub(crate) fn resume(
        assembly: Assembly,
        mut checkpoint: Checkpoint,
        decisions: Vec<ApprovalDecision>,
    ) -> Self {
        let log = MemoryLog::default();
        let refused = checkpoint.decide(&decisions, Clock.now().0).err();
        {
            let mut tree = log.0.lock();
            tree.rows = checkpoint.rows;
            tree.seq = checkpoint.seq;
            tree.purses = checkpoint.purses;
        }
        log.offer_all();
        let mut run = Self::new(log, assembly);
        run.end = refused.map(|error| RunEnd::failed(error, ErrorClass::InvalidRequest));
        run
    }

    fn new(log: MemoryLog, assembly: Assembly) -> Self {
        let assembly = Arc::new(assembly);
        let planner = Planner {
            catalog: Arc::new(LiveCatalog::from(assembly.catalog())),
            schemas: Arc::new(SchemaCache::new()),
            sealer: Arc::new(NothingSealed),
            monthly_budgets: Arc::new(MonthlyBudgets::default()),
            max_tool_turns: MAX_TOOL_TURNS_DEFAULT,
            max_sub_runs: MAX_SUB_RUNS,
            agents: Arc::clone(&assembly) as Arc<dyn Agents>,
        };
        let policy = assembly.has_call_policy();
        let policy = policy.then(|| Arc::clone(&assembly) as Arc<dyn CallPolicy>);
        let shared = Arc::new(log.clone());
        let driver = EmbeddedDriver::new(EmbeddedParts {
            log: Arc::clone(&shared) as Arc<dyn RunLog>,
            ledger: Arc::clone(&shared) as Arc<dyn Ledger>,
            planner: Arc::new(planner),
            tools: Arc::new(InProcessHost(assembly)),
            files: Arc::new(PlainFiles),
            call_policy: policy,
            settings: DriverSettings {
                // A run that waits gives its driver back at once.
                park_after: Duration::ZERO,
                approval_timeout: Duration::from_millis(APPROVAL_TIMEOUT_MS_MAX),
                ..DriverSettings::default()
            },
            waker: shared as Arc<dyn WakeRuns>,
        });
        Self {
            log,
            driver: Arc::new(driver),
            active: FuturesUnordered::new(),
            timer: None,
            end: None,
        }
    }

    /// The next event; `None` when the run has ended or is paused.
    pub async fn next(&mut self) -> Option<Trace> {
        StreamExt::next(self).await
    }

    /// Advances the run to its end and returns it. Events that were not taken are dropped.
    pub async fn end(mut self) -> RunEnd {
        while self.next().await.is_some() {}
        self.end
            .unwrap_or_else(|| RunEnd::failed("the run has no end".to_owned(), ErrorClass::Server))
    }

    /// Asks the run and all runs below it to stop. It ends as [`RunEnd::Cancelled`] while it is polled.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// A handle that cancels the run while it is polled elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(self.log.clone())
    }

    fn start_ready(&mut self) {
        while let Some((claim, notifier)) = self.log.claim_next(Clock.now()) {
            let (driver, run) = (Arc::clone(&self.driver), claim.lease.run);
            self.active.push(Box::pin(async move {
                let left = driver.drive(claim, Arc::clone(&notifier)).await;
                (run, notifier, left)
            }));
        }
    }

    /// Wakes parked runs whose timers are due, as long as others are driven.
    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        let Some(at) = self.log.next_wake() else {
            self.timer = None;
            return;
        };
        if self.timer.as_ref().is_none_or(|(set, _)| *set != at) {
            self.timer = Some((at, Box::pin(tokio::time::sleep(Clock.until(at)))));
        }
        if let Some((_, sleep)) = &mut self.timer
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            self.log.wake_due(Clock.now());
        }
    }

    fn conclude(&self) -> RunEnd {
        if let Some(end) = self.log.terminal().as_ref().and_then(RunEnd::of) {
            return end;
        }
        let pending = self.log.pending();
        if pending.is_empty() {
            let error = "the run waits for nothing that can happen".to_owned();
            return RunEnd::failed(error, ErrorClass::Server);
        }
        let tree = self.log.0.lock();
        let checkpoint = Checkpoint {
            rows: tree.rows.clone(),
            seq: tree.seq,
            purses: tree.purses.clone(),
        };
        RunEnd::Paused {
            checkpoint: Box::new(checkpoint),
            pending,
        }
    }
}

impl Stream for Run {
    type Item = Trace;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Trace>> {
        self.log.set_waker(cx.waker());
        loop {
            if self.end.is_some() {
                return Poll::Ready(None);
            }
            if let Some(trace) = self.log.next_trace() {
                return Poll::Ready(Some(trace));
            }
            self.start_ready();
            match self.active.poll_next_unpin(cx) {
                Poll::Ready(Some((run, notifier, left))) => {
                    let wake_at = match left {
                        Ok(Left::Parked(at)) => at,
                        Ok(_) => None,
                        Err(error) => {
                            self.end = Some(RunEnd::failed(error.to_string(), ErrorClass::Server));
                            continue;
                        }
                    };
                    self.log.left(run, &notifier, wake_at);
                    continue;
                }
                Poll::Ready(None) if !self.log.has_news() => {
                    self.end = Some(self.conclude());
                    continue;
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            self.poll_timer(cx);
            if !self.log.has_news() {
                return Poll::Pending;
            }
        }
    }
}
