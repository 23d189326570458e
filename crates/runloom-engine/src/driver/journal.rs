//! The fenced writer of one run: drafts records, makes them durable, then shows them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use runloom_protocol::backoff::Backoff;
use runloom_protocol::event::Event;
use runloom_protocol::outcome::Tokens;
use runloom_protocol::resource::RunStatus;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::delta_throttle::{self, Turn};

use crate::hub::LiveRun;
use crate::metrics::METRICS;
use crate::run::{Note, PlacedNote};
use runloom_ports::clock::Clock;
use runloom_ports::crash;
use runloom_ports::planted::{self, Bug};
use runloom_ports::store::{
    Ask, Batch, Chunk, CommitError, Committed, Lease, Ledger, MailNo, MicroUsd, Next, OpenCall,
    PurseLimit, Reservation, RunLog, StoreResult, UsageDelta,
};

/// Pauses between attempts to write to a store that is unavailable.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How long a planted bug shows what is not durable.
const PLANTED_WINDOW: Duration = Duration::from_millis(50);

/// Why a run is left as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Abandon {
    /// Another worker has the run.
    #[error("another worker has taken the run over")]
    Fenced,
    /// The process ends before the store came back.
    #[error("the process ends while the store is unavailable")]
    Killed,
    /// An event cannot be written down.
    #[error("an event cannot be serialised")]
    Unwritable(#[from] serde_json::Error),
}

/// What a run holds while it may be one that kills its workers: others wait for it to be driven apart from this one.
pub(crate) type CrashSuspicion = OwnedSemaphorePermit;

/// The future of a batch on its way to the store.
pub(crate) type Writing = Pin<Box<dyn Future<Output = Result<Committed, Abandon>> + Send>>;

/// The writer of one run's log.
pub(crate) struct Journal {
    log: Arc<dyn RunLog>,
    ledger: Arc<dyn Ledger>,
    clock: Clock,
    live: Arc<LiveRun>,
    lease: Lease,
    kill: CancellationToken,
    /// Number of the last event that is durable or in the draft.
    seq: u64,
    /// Mail up to here has been folded in.
    pub(crate) mail_read: MailNo,
    /// What the run's row says, when that is known.
    pub(crate) status: Option<RunStatus>,
    /// Held for as long as the run is one that may have killed its workers: until it gets further.
    pub(crate) suspicion: Option<CrashSuspicion>,
    /// Who is accounted for what the run uses, when it is not the model that it was created with.
    pub(crate) speaker: Option<Arc<str>>,
    /// When the last batch began, or this process took the run.
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
    closed: Vec<String>,
    status: Option<RunStatus>,
    usage: UsageDelta,
}

impl Draft {
    /// True when it holds nothing but deltas and private notes, on which nothing outside rests.
    fn can_wait(&self) -> bool {
        self.events == self.deltas
            && self.opened.is_empty()
            && self.closed.is_empty()
            && self.status.is_none()
            && self.usage.is_empty()
    }
}

impl Journal {
    pub(crate) fn new(
        (log, ledger): (Arc<dyn RunLog>, Arc<dyn Ledger>),
        live: Arc<LiveRun>,
        lease: Lease,
        last_seq: u64,
        kill: CancellationToken,
    ) -> Self {
        Self {
            log,
            ledger,
            clock: Clock,
            live,
            lease,
            kill,
            seq: last_seq,
            mail_read: MailNo::default(),
            status: None,
            suspicion: None,
            speaker: None,
            began: Instant::now(),
            draft: Draft::default(),
        }
    }

    /// Drafts an event; it gets the next number.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Abandon> {
        event.write_frame(self.seq + 1, &mut self.draft.frames)?;
        self.seq += 1;
        self.draft.events += 1;
        let is_delta = matches!(event, Event::AssistantDelta(_) | Event::ThinkingDelta(_));
        self.draft.deltas += u64::from(is_delta);
        self.draft.terminal = event.is_terminal();
        self.draft.progress |= event.is_progress();
        Ok(())
    }

    /// Drafts a note, placed after the last event.
    pub(crate) fn note(&mut self, note: Note) {
        self.draft.notes.push(PlacedNote {
            after: self.seq,
            note,
        });
    }

    /// From the next batch on, the client may answer this call.
    pub(crate) fn open_call(&mut self, call: OpenCall) {
        self.draft.opened.push(call);
    }

    /// From the next batch on, nobody may answer this call.
    pub(crate) fn close_call(&mut self, tool_use_id: String) {
        self.draft.closed.push(tool_use_id);
    }

    /// The status that the next batch gives the run, unless it has it already.
    pub(crate) fn set_status(&mut self, status: RunStatus) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.draft.status = Some(status);
        }
    }

    /// Adds model invocations to the account.
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

    /// Takes money out of monthly_budgets. The draft must be written before, because it may give some back.
    pub(crate) async fn reserve(
        &self,
        monthly_budgets: &[PurseLimit],
        ask: Ask,
    ) -> StoreResult<Reservation> {
        self.ledger.reserve(self.lease, monthly_budgets, ask).await
    }

    /// True when there is nothing to write.
    pub(crate) fn is_clean(&self) -> bool {
        self.draft.events == 0
            && self.draft.notes.is_empty()
            && self.draft.status.is_none()
            && self.draft.usage.is_empty()
    }

    /// Bytes of events that wait to be written.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.draft.frames.len()
    }

    /// True when somebody waits for the draft.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.draft.can_wait()
    }

    /// Whether the draft holds deltas.
    pub(super) fn has_deltas(&self) -> bool {
        self.draft.deltas > 0
    }

    /// Whether the draft holds nothing but deltas, and not too many.
    pub(super) fn can_wait(&self) -> bool {
        self.draft.can_wait() && self.draft.frames.len() < delta_throttle::ENOUGH_BYTES
    }

    /// When a draft that can wait may be written at the earliest; `None` when now.
    pub(super) fn not_before(&self) -> Option<Instant> {
        let earliest = self.began + delta_throttle::SPACING;
        (Instant::now() < earliest).then_some(earliest)
    }

    /// Writes the draft and goes on; nothing to do when it is empty.
    pub(crate) async fn flush(&mut self) -> Result<(), Abandon> {
        if !self.is_clean() {
            self.begin(Next::Keep, None)?.await?;
        }
        Ok(())
    }

    /// Writes the draft, which ends the run or hands it over.
    pub(crate) async fn leave(&mut self, next: Next) -> Result<Committed, Abandon> {
        self.begin(next, None)?.await
    }

    /// Starts to write the draft. Later records go into the next batch, which must not begin before this one has ended. The turn is
    /// given back when it is durable and shown, or when the store fails.
    pub(crate) fn begin(&mut self, next: Next, turn: Option<Turn>) -> Result<Writing, Abandon> {
        let batch = self.take_batch(next, false)?;
        let cleared = self.suspicion.take_if(|_| batch.progress);
        self.began = Instant::now();
        let (log, live, lease, kill) = (
            Arc::clone(&self.log),
            Arc::clone(&self.live),
            self.lease,
            self.kill.clone(),
        );
        Ok(Box::pin(async move {
            let chunk = batch.chunk.clone();
            let too_early = planted::is_planted(Bug::PublishFirst);
            if too_early {
                show(&live, chunk.clone());
                tokio::time::sleep(PLANTED_WINDOW).await;
            }
            let mut turn = turn;
            let committed = write(&*log, lease, batch, &kill, &mut turn).await?;
            drop(cleared);
            if !too_early {
                show(&live, chunk);
            }
            drop(turn);
            // Without `unless_mail` nothing is refused for mail.
            committed.ok_or(Abandon::Fenced)
        }))
    }

    /// Writes events that rest on no mail having arrived. Returns false, with nothing written or drafted, when some has. The
    /// draft must be empty.
    pub(crate) async fn attempt(
        &mut self,
        events: &[Event],
        closed: Vec<String>,
        next: Next,
    ) -> Result<bool, Abandon> {
        debug_assert!(self.is_clean());
        let seq = self.seq;
        for event in events {
            self.event(event)?;
        }
        self.draft.closed = closed;
        let batch = self.take_batch(next, true)?;
        let (chunk, progress) = (batch.chunk.clone(), batch.progress);
        let written = write(&*self.log, self.lease, batch, &self.kill, &mut None)
            .await?
            .is_some();
        if written {
            self.suspicion.take_if(|_| progress);
            show(&self.live, chunk);
        } else {
            self.seq = seq;
        }
        Ok(written)
    }

    fn take_batch(&mut self, next: Next, unless_mail: bool) -> Result<Batch, Abandon> {
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
            closed: draft.closed,
            mail_through: self.mail_read,
            unless_mail,
            status: draft.status,
            usage: Some(draft.usage).filter(|usage| !usage.is_empty()),
            speaker: self.speaker.clone(),
            progress: draft.progress,
            next,
        })
    }
}

fn show(live: &Arc<LiveRun>, chunk: Chunk) {
    if chunk.last_seq >= chunk.first_seq {
        let terminal = chunk.terminal;
        crash::point("before_publish");
        live.publish(chunk);
        crash::point("after_publish");
        if terminal {
            live.keep_for_latecomers();
        }
    }
}

/// Writes a batch, trying again while the store is unavailable: a run that cannot be written down must not go on. `None`: mail
/// waits.
async fn write(
    log: &dyn RunLog,
    lease: Lease,
    batch: Batch,
    kill: &CancellationToken,
    turn: &mut Option<Turn>,
) -> Result<Option<Committed>, Abandon> {
    let mut delays = RETRY.delays();
    loop {
        match log.commit(lease, batch.clone()).await {
            Ok(committed) => return Ok(Some(committed)),
            Err(CommitError::MailWaiting) => return Ok(None),
            Err(CommitError::Fenced) => {
                METRICS.fenced.add(1);
                return Err(Abandon::Fenced);
            }
            Err(CommitError::Store(error)) => {
                warn!(
                    run = lease.run.0,
                    error = &error as &dyn std::error::Error,
                    "cannot write the log; trying again"
                );
            }
        }
        // Others may fare better.
        *turn = None;
        tokio::select! {
            () = tokio::time::sleep(delays.next_delay()) => {}
            () = kill.cancelled() => return Err(Abandon::Killed),
        }
    }
}
