//! The fenced writer of one run: drafts records, makes them durable, then publishes them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use runloom_protocol::event::Event;
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::outcome::Tokens;
use runloom_protocol::resource::RunStatus;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::DriverParts;
use super::commit::{Attempted, Written, publish, wake_all, write};
use super::delta_throttle::{self, WritePermit};
use crate::hub::LiveRun;
use crate::run::{Note, PlacedNote};
use runloom_ports::clock::Clock;
use runloom_ports::planted::{self, Bug};
use runloom_ports::store::{
    Batch, BudgetLimit, Chunk, Claim, Committed, CostRange, Delivery, ForwardedEvent, Lease,
    MailBody, MailNo, MicroUsd, NewApproval, Next, OpenCall, OutgoingMail, Reservation, RunNo,
    StoreResult, SubRuns, UsageDelta, WorkspaceNo,
};

/// How long a planted bug publishes what is not durable.
const PLANTED_WINDOW: Duration = Duration::from_millis(50);

/// Why a driver drops its run without returning the lease.
#[derive(Debug, thiserror::Error)]
pub enum Abandon {
    /// Another worker has the lease.
    #[error("another worker has taken the run over")]
    Fenced,
    /// The process was interrupted before the store came back.
    #[error("the process ends while the store is unavailable")]
    Interrupted,
    /// An event cannot be serialised.
    #[error("an event cannot be serialised")]
    Unwritable(#[from] serde_json::Error),
}

/// The permit of a crash suspect, held until it makes progress. Other suspects wait for it.
pub(crate) type CrashSuspicion = OwnedSemaphorePermit;

/// Wakes runs that have mail or want a worker.
pub trait WakeRuns: Send + Sync {
    /// Wakes the run of a delivery. Losing a wake-up costs time, not correctness.
    fn wake(&self, delivery: Delivery, workspace: WorkspaceNo);
}

/// The future of a batch on its way to the store.
pub(crate) type Writing = Pin<Box<dyn Future<Output = Result<Committed, Abandon>> + Send>>;

/// The writer of one run's log.
pub(crate) struct Journal {
    parts: Arc<DriverParts>,
    clock: Clock,
    live: Arc<LiveRun>,
    lease: Lease,
    workspace: WorkspaceNo,
    id: RunId,
    /// Rows of the run's ancestors, whose logs get some of its events.
    pub(crate) ancestors: Vec<RunNo>,
    /// Number of the last event that is durable or in the draft.
    seq: u64,
    /// Mail up to here has been folded in.
    pub(crate) mail_read: MailNo,
    /// The status of the run's row, when it is known.
    pub(crate) status: Option<RunStatus>,
    /// Held by a crash suspect until it makes progress.
    pub(crate) suspicion: Option<CrashSuspicion>,
    /// Catalog id of the model that is billed, when it is not the one that the run was created with.
    pub(crate) billed_model: Option<Arc<str>>,
    /// Start of the last batch, or of this driver.
    began: Instant,
    draft: Draft,
}

/// What was recorded since the last batch.
#[derive(Default)]
struct Draft {
    frames: BytesMut,
    events: u64,
    /// How many of the events are deltas.
    deltas: u64,
    terminal: bool,
    progress: bool,
    notes: Vec<PlacedNote>,
    opened: Vec<OpenCall>,
    closed: Closed,
    approvals: Vec<NewApproval>,
    status: Option<RunStatus>,
    mail: Vec<OutgoingMail>,
    sub_runs: SubRuns,
    stop_below: Option<String>,
    usage: UsageDelta,
}

/// Calls and approvals that no longer wait.
#[derive(Default)]
pub(crate) struct Closed {
    /// Calls that the client may not answer any more.
    pub(crate) calls: Vec<String>,
    /// Approvals whose time has run out.
    pub(crate) approvals: Vec<ApprovalId>,
}

impl Draft {
    /// Whether the draft holds only deltas and private notes, on which nothing outside depends.
    fn can_wait(&self) -> bool {
        self.events == self.deltas
            && self.opened.is_empty()
            && self.closed.calls.is_empty()
            && self.approvals.is_empty()
            && self.status.is_none()
            && self.mail.is_empty()
            && self.stop_below.is_none()
            && self.usage.is_empty()
    }
}

impl Journal {
    /// The writer of a claimed run. The run is live in the hub from now on.
    pub(crate) fn open(claim: &Claim, parts: Arc<DriverParts>) -> Self {
        let last_seq = claim.log.iter().map(|entry| entry.chunk.last_seq).max();
        Self {
            live: parts.hub.open(&claim.id, claim.lease.run, claim.workspace),
            parts,
            clock: Clock,
            lease: claim.lease,
            workspace: claim.workspace,
            id: claim.id.clone(),
            ancestors: Vec::new(),
            seq: last_seq.unwrap_or(0),
            mail_read: MailNo::default(),
            status: None,
            suspicion: None,
            billed_model: None,
            began: Instant::now(),
            draft: Draft::default(),
        }
    }

    /// Number of the run's row.
    pub(crate) fn run(&self) -> RunNo {
        self.lease.run
    }

    /// Drafts an event; it gets the next number.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Abandon> {
        let at = self.clock.now().since_epoch();
        event.write_frame(self.seq + 1, at, &mut self.draft.frames)?;
        self.seq += 1;
        self.draft.events += 1;
        let is_delta = matches!(event, Event::AssistantDelta(_) | Event::ThinkingDelta(_));
        self.draft.deltas += u64::from(is_delta);
        self.draft.terminal = event.is_terminal();
        self.draft.progress |= event.is_progress();
        if !self.ancestors.is_empty() && self.is_forwarded(event) {
            self.forward(event.clone());
        }
        Ok(())
    }

    /// Whether the logs of the ancestors get the event: approvals of the run, and what happens to its children.
    fn is_forwarded(&self, event: &Event) -> bool {
        let run = if let Event::Subagent(below) = event {
            &below.parent_run_id
        } else if let Event::ApprovalRequested(request) = event {
            &request.run_id
        } else if let Event::ApprovalDecided(decided) = event {
            &decided.run_id
        } else {
            return false;
        };
        *run == self.id
    }

    /// The next batch sends an event to the logs of all ancestors.
    pub(crate) fn forward(&mut self, event: Event) {
        let forwarded = ForwardedEvent { event };
        for &to in &self.ancestors {
            let body = MailBody::Forward(Box::new(forwarded.clone()));
            self.draft.mail.push(OutgoingMail { to, body });
        }
    }

    /// Drafts a note, placed after the last event.
    pub(crate) fn note(&mut self, note: Note) {
        self.draft.notes.push(PlacedNote {
            after: self.seq,
            note,
        });
    }

    /// The next batch opens this call to the client.
    pub(crate) fn open_call(&mut self, call: OpenCall) {
        self.draft.opened.push(call);
    }

    /// The next batch sends mail to another run.
    pub(crate) fn send(&mut self, to: RunNo, body: MailBody) {
        self.draft.mail.push(OutgoingMail { to, body });
    }

    /// The next batch stops every live run below, with this reason.
    pub(crate) fn stop_below(&mut self, reason: &str) {
        self.draft.stop_below = Some(reason.to_owned());
    }

    /// The next batch closes this call.
    pub(crate) fn close_call(&mut self, tool_use_id: String) {
        self.draft.closed.calls.push(tool_use_id);
    }

    /// From the next batch on, this approval waits for a decision.
    pub(crate) fn open_approval(&mut self, approval: NewApproval) {
        self.draft.approvals.push(approval);
    }

    /// The status that the next batch gives the run, unless it has it already.
    pub(crate) fn set_status(&mut self, status: RunStatus) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.draft.status = Some(status);
        }
    }

    /// Adds model calls to the usage of the next batch.
    pub(crate) fn count(&mut self, tokens: &Tokens, cost_pico: u64, turns: u32) {
        let usage = &mut self.draft.usage;
        usage.tokens.add(tokens);
        usage.cost_pico = usage.cost_pico.saturating_add(cost_pico);
        usage.turns = usage.turns.saturating_add(turns);
    }

    /// The next batch ends the run's reservation.
    pub(crate) fn settle(&mut self, spent: MicroUsd) {
        let settled = &mut self.draft.usage.settle;
        *settled = Some(settled.unwrap_or_default().plus(spent));
    }

    /// The next batch counts the run as ended.
    pub(crate) fn count_run(&mut self) {
        self.draft.usage.runs = 1;
    }

    /// Reserves money from monthly budgets. The draft must be written before, because it may settle an earlier
    /// reservation.
    pub(crate) async fn reserve(
        &self,
        monthly_budgets: &[BudgetLimit],
        ask: CostRange,
    ) -> StoreResult<Reservation> {
        let ledger = &self.parts.ledger;
        ledger.reserve(self.lease, monthly_budgets, ask).await
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_clean(&self) -> bool {
        self.draft.events == 0
            && self.draft.notes.is_empty()
            && self.draft.status.is_none()
            && self.draft.mail.is_empty()
            && self.draft.stop_below.is_none()
            && self.draft.usage.is_empty()
    }

    /// Bytes of drafted events.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.draft.frames.len()
    }

    /// Whether the draft holds more than deltas and notes.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.draft.can_wait()
    }

    /// Whether the draft holds deltas.
    pub(super) fn has_deltas(&self) -> bool {
        self.draft.deltas > 0
    }

    /// Whether the draft holds only deltas, and few bytes of them.
    pub(super) fn can_wait(&self) -> bool {
        self.draft.can_wait() && self.draft.frames.len() < delta_throttle::ENOUGH_BYTES
    }

    /// The earliest time for a draft that can wait; `None` when it is now.
    pub(super) fn not_before(&self) -> Option<Instant> {
        let earliest = self.began + delta_throttle::SPACING;
        (Instant::now() < earliest).then_some(earliest)
    }

    /// Writes the draft and keeps the lease. Does nothing when the draft is empty.
    pub(crate) async fn flush(&mut self) -> Result<(), Abandon> {
        if !self.is_clean() {
            self.begin(Next::Keep, None)?.await?;
        }
        Ok(())
    }

    /// Writes the draft and returns the lease.
    pub(crate) async fn leave(&mut self, next: Next) -> Result<Committed, Abandon> {
        self.begin(next, None)?.await
    }

    /// Starts to write the draft. Later records go into the next batch, which must not start before this one has
    /// ended. The permit is returned when the batch is published, or when the store fails.
    pub(crate) fn begin(
        &mut self,
        next: Next,
        permit: Option<WritePermit>,
    ) -> Result<Writing, Abandon> {
        let batch = self.take_batch(next)?;
        let cleared = self.suspicion.take_if(|_| batch.progress);
        self.began = Instant::now();
        let (parts, live) = (Arc::clone(&self.parts), Arc::clone(&self.live));
        let (lease, workspace) = (self.lease, self.workspace);
        Ok(Box::pin(async move {
            let chunk = batch.chunk.clone();
            let too_early = planted::is_planted(Bug::PublishFirst);
            if too_early {
                publish(&live, chunk.clone());
                tokio::time::sleep(PLANTED_WINDOW).await;
            }
            let mut permit = permit;
            let written = write(&parts, lease, batch, &mut permit).await?;
            drop(cleared);
            if !too_early {
                publish(&live, chunk);
            }
            drop(permit);
            match written {
                Written::Durable(committed) => {
                    wake_all(&parts, &committed, workspace);
                    Ok(committed)
                }
                // Without `unless_mail` and without children no batch is refused.
                Written::Refused(_) => Err(Abandon::Fenced),
            }
        }))
    }

    /// Writes events that are right only while no mail has arrived. Returns false, with nothing written or drafted,
    /// when some has. The draft must be empty.
    pub(crate) async fn attempt(
        &mut self,
        events: &[Event],
        closed: Closed,
        next: Next,
    ) -> Result<bool, Abandon> {
        debug_assert!(self.is_clean());
        let seq = self.seq;
        for event in events {
            self.event(event)?;
        }
        self.draft.closed = closed;
        let batch = Batch {
            unless_mail: true,
            ..self.take_batch(next)?
        };
        Ok(self.write_or_undo(batch, seq).await? == Attempted::Written)
    }

    /// Writes events with children below the run. Nothing is written or drafted when the root has no room for the
    /// children. The draft must be empty.
    pub(crate) async fn create_sub_runs(
        &mut self,
        events: &[Event],
        sub_runs: SubRuns,
    ) -> Result<Attempted, Abandon> {
        debug_assert!(self.is_clean());
        let seq = self.seq;
        for event in events {
            self.event(event)?;
        }
        self.draft.sub_runs = sub_runs;
        let batch = self.take_batch(Next::Keep)?;
        self.write_or_undo(batch, seq).await
    }

    /// Writes a batch that may be refused. The log then ends at `seq`, as before.
    async fn write_or_undo(&mut self, batch: Batch, seq: u64) -> Result<Attempted, Abandon> {
        let (chunk, progress) = (batch.chunk.clone(), batch.progress);
        match write(&self.parts, self.lease, batch, &mut None).await? {
            Written::Durable(committed) => {
                self.suspicion.take_if(|_| progress);
                publish(&self.live, chunk);
                wake_all(&self.parts, &committed, self.workspace);
                Ok(Attempted::Written)
            }
            Written::Refused(attempted) => {
                self.seq = seq;
                Ok(attempted)
            }
        }
    }

    fn take_batch(&mut self, next: Next) -> Result<Batch, Abandon> {
        let draft = std::mem::take(&mut self.draft);
        let notes = if draft.notes.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&draft.notes)?
        };
        Ok(Batch {
            chunk: Chunk {
                first_seq: self.seq + 1 - draft.events,
                last_seq: self.seq,
                terminal: draft.terminal,
                frames: draft.frames.freeze(),
            },
            notes,
            at: self.clock.now(),
            opened: draft.opened,
            closed: draft.closed.calls,
            approvals: draft.approvals,
            expired_approvals: draft.closed.approvals,
            mail_through: self.mail_read,
            unless_mail: false,
            status: draft.status,
            mail: draft.mail,
            sub_runs: draft.sub_runs,
            stop_below: draft.stop_below,
            usage: Some(draft.usage).filter(|usage| !usage.is_empty()),
            speaker: self.billed_model.clone(),
            progress: draft.progress,
            next,
        })
    }
}
