//! The worker's side: claiming a run, writing its log, leaving it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use runloom_protocol::approval::{DecidedBy, Ruling};
use runloom_protocol::attachment::Attachment;
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::outcome::{FailureReason, ModelInfo, RunCancelled, SubagentUsage, Tokens};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{PromptMessage, ToolAnswer};

use super::{
    Delivery, ForwardedEvent, Millis, NewApproval, OutgoingMail, RunNo, StoreError, StoreResult,
    SubRunEnded, SubRuns, UsageDelta, WorkspaceNo,
};

/// Claiming runs and writing their logs.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Takes the lease of a run: raises the epoch, counts the claim in `attempts`, sets `started_at` at the first
    /// claim and changes the status `queued` to `running`. Claiming a parked run un-parks it.
    ///
    /// Refused as [`ClaimOutcome::NotNow`], and not counted, when the run has ended, is held by a live worker, is
    /// parked with nothing to do, has had `most` attempts, or is behind an earlier live run of its session. A run
    /// with a cancel in its mail does not wait for its session.
    async fn claim(
        &self,
        run: RunNo,
        worker: &str,
        now: Millis,
        most: u32,
    ) -> StoreResult<ClaimOutcome>;

    /// Writes one batch, atomically and fenced by the lease. See [`Batch`].
    async fn commit(&self, lease: Lease, batch: Batch) -> Result<Committed, CommitError>;

    /// Mail of the run that came after `after`, oldest first.
    async fn mail(&self, run: RunNo, after: MailNo) -> StoreResult<Vec<Mail>>;

    /// Chunks of the log that hold events after `seq`, oldest first, at most about `max_bytes` of them (at least
    /// one). The first chunk may begin before `seq + 1`.
    async fn read_log(&self, run: RunNo, seq: u64, max_bytes: usize) -> StoreResult<Vec<Chunk>>;

    /// Runs without a worker that have work: queued, interrupted by a crash, or parked with a due timer or unread
    /// mail. Runs behind an earlier live run of their session are omitted, unless a cancel waits. Workspaces
    /// alternate, oldest run first, so that one with many runs does not hide the others. Within a workspace, runs
    /// with `trusted` or more attempts alternate with the rest in the same way.
    async fn claimable(
        &self,
        now: Millis,
        trusted: u32,
        limit: usize,
    ) -> StoreResult<Vec<Claimable>>;

    /// When the earliest timer of a parked run is due.
    async fn next_timer(&self) -> StoreResult<Option<Millis>>;

    /// Runs of this worker that have mail it may not have heard of.
    async fn unheard(&self, worker: &str) -> StoreResult<Vec<RunNo>>;

    /// Records the heartbeat of a worker. Leases of workers without a recent heartbeat can be claimed by others.
    async fn heartbeat(&self, worker: &str, now: Millis) -> StoreResult<()>;
}

/// The right to write the log of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Which run.
    pub run: RunNo,
    /// Rises at every claim.
    pub epoch: u64,
}

/// Answer to a claim.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// It is yours.
    Claimed(Box<Claim>),
    /// The run cannot be claimed now.
    NotNow,
}

/// A run that needs a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimable {
    /// Which run.
    pub run: RunNo,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// Claims since it last got further, see [`Claim::attempts`].
    pub attempts: u32,
}

/// Everything a worker needs to go on with a run.
#[derive(Debug)]
pub struct Claim {
    /// The right to write.
    pub lease: Lease,
    /// Public id.
    pub id: RunId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// The run is a message to a session.
    pub in_session: bool,
    /// The stored spec, JSON, as [`super::NewRun::spec`] gave it.
    pub spec: String,
    /// The session's messages so far; empty without a session.
    pub history: Vec<PromptMessage>,
    /// The session's [`super::SessionRow::active_model`]. No other run changes it under the lease.
    pub active_model: Option<String>,
    /// The whole log so far, oldest first.
    pub log: Vec<LogEntry>,
    /// Unread mail, oldest first.
    pub mail: Vec<Mail>,
    /// Claims, including this one, since the last batch with [`Batch::progress`] or the last parking. A high number
    /// marks a run that crashes its workers.
    pub attempts: u32,
    /// A worker that stays silent had it.
    pub taken_over: bool,
    /// When the run was accepted.
    pub created_at: Millis,
    /// When it was first claimed.
    pub started_at: Millis,
}

/// A piece of the log: consecutive events as the bytes that are streamed, written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the first event.
    pub first_seq: u64,
    /// Number of the last event.
    pub last_seq: u64,
    /// The last event ends the run.
    pub terminal: bool,
    /// SSE frames.
    pub frames: Bytes,
}

/// One committed batch, ready to fold. Each note names the event it follows.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The events; a batch of notes alone has no frames and `last_seq = first_seq - 1`.
    pub chunk: Chunk,
    /// Private records, a JSON array, or empty.
    pub notes: String,
    /// When it was written.
    pub at: Millis,
}

/// The content of one transaction.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The events and their numbers. The writer assigns the numbers: `first_seq` is one more than the last batch's
    /// `last_seq`.
    pub chunk: Chunk,
    /// Private records, a JSON array, or empty.
    pub notes: String,
    /// Now.
    pub at: Millis,
    /// Client calls that wait for an answer from now on.
    pub opened: Vec<OpenCall>,
    /// Client calls that wait no longer.
    pub closed: Vec<String>,
    /// New pending approvals. An approval that exists already is left unchanged.
    pub approvals: Vec<NewApproval>,
    /// Approvals whose time limit has passed. One that was decided meanwhile is left unchanged.
    pub expired_approvals: Vec<ApprovalId>,
    /// Mail up to this number has been folded in and is deleted.
    pub mail_through: MailNo,
    /// Refuse with [`CommitError::MailWaiting`] when there is mail after `mail_through`. Used by batches that are
    /// right only without new mail: timeouts and parking.
    pub unless_mail: bool,
    /// New status of the run, when it changes.
    pub status: Option<RunStatus>,
    /// Mail to other runs.
    pub mail: Vec<OutgoingMail>,
    /// Children to create.
    pub sub_runs: SubRuns,
    /// Live runs below this one get a cancel with this reason, unless they have one.
    pub stop_below: Option<String>,
    /// Usage to add to the run's workspace, key and model, on the day of `at`.
    pub usage: Option<UsageDelta>,
    /// Catalog id of the billed model, if it is not [`super::NewRun::model_id`].
    pub speaker: Option<Arc<str>>,
    /// Whether the batch counts as progress, which resets the attempts. Events that every attempt at the same step
    /// would write again are no progress.
    pub progress: bool,
    /// The state of the run afterwards.
    pub next: Next,
}

impl Batch {
    /// Number of counted claims that this batch takes back: all when the run makes progress or `parks` to wait for
    /// its client, one when the worker leaves the run in order, otherwise 0.
    #[must_use]
    pub fn forgives(&self, parks: bool) -> u32 {
        match self.next {
            _ if self.progress => u32::MAX,
            Next::Park { .. } if parks => u32::MAX,
            Next::Release | Next::Park { .. } | Next::Defer { .. } => 1,
            Next::Keep | Next::Return | Next::Finish(_) => 0,
        }
    }
}

/// The state of a run after a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The worker continues.
    Keep,
    /// The lease is returned; the run waits for mail or the timer.
    Park {
        /// When to wake it without mail.
        wake_at: Option<Millis>,
    },
    /// The lease is returned because this worker cannot continue the run; it waits for mail or the timer. This claim
    /// does not count as an attempt; earlier ones do.
    Defer {
        /// When to wake it without mail.
        until: Millis,
    },
    /// The lease is returned at a shutdown, and the run needs another worker at once. This claim does not count as an
    /// attempt; earlier ones do.
    Release,
    /// The lease is given back because its driver broke; the claim stays counted.
    Return,
    /// The run is over; the chunk's last event is terminal. Its mail, pending calls and lease go, pending approvals
    /// become `cancelled`, a reservation that is not settled counts as spent in full, and its session's messages are
    /// appended.
    Finish(Box<Ending>),
}

/// The run's row at its end, folded from the log for snapshots and lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// A terminal status.
    pub status: RunStatus,
    /// The answer, or its beginning if the run failed.
    pub final_text: Option<String>,
    /// Message of the `error` event.
    pub error: Option<String>,
    /// Class of the `error` event.
    pub failure: Option<FailureReason>,
    /// The receipt, for cancelled runs.
    pub cancel: Option<RunCancelled>,
    /// Sums.
    pub tokens: Tokens,
    /// Model invocations.
    pub turns: u32,
    /// The model.
    pub model: ModelInfo,
    /// Money, when the model has a price.
    pub cost_usd: Option<f64>,
    /// The part of these sums that runs below used.
    pub subagents: Option<SubagentUsage>,
    /// Tool calls, for lists.
    pub tool_calls: u32,
    /// Appended to the session: only on success.
    pub session_messages: Vec<PromptMessage>,
    /// The new [`super::SessionRow::active_model`] of the session; `None` leaves it unchanged.
    pub active_model: Option<String>,
}

/// A client call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// Which call.
    pub tool_use_id: String,
    /// When it times out.
    pub deadline: Millis,
}

/// Row number of mail; rises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailNo(pub i64);

/// A message to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// Its number.
    pub no: MailNo,
    /// When it was accepted.
    pub at: Millis,
    /// Its content.
    pub body: MailBody,
}

/// Content of mail. Stored as JSON.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MailBody {
    /// A client answered a call.
    ToolResult {
        /// Which call.
        tool_use_id: String,
        /// The answer.
        answer: ToolAnswer,
        /// Files beside it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<Attachment>,
    },
    /// A person decided about a call.
    Approval {
        /// Which approval.
        approval: ApprovalId,
        /// The decision.
        ruling: Ruling,
        /// The person or key that decided.
        by: DecidedBy,
    },
    /// The run is to stop.
    Cancel {
        /// `user`, `session_ended`, …
        reason: String,
    },
    /// A child has ended.
    SubRunEnded(Box<SubRunEnded>),
    /// A run below wrote an event that the logs of all its ancestors get.
    Forward(Box<ForwardedEvent>),
}

/// A batch is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// After [`Next::Finish`]: the session's next run, which now needs a worker.
    pub next_in_session: Option<RunNo>,
    /// Runs to wake: recipients of [`Batch::mail`], runs stopped by [`Batch::stop_below`], new children.
    pub deliveries: Vec<Delivery>,
}

/// A batch was refused; nothing of it was written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another worker holds the run now: stop at once.
    #[error("the run has another owner")]
    Fenced,
    /// Mail arrived: read it and decide again.
    #[error("there is unread mail")]
    MailWaiting,
    /// The root may not have this many more runs below it.
    #[error("the root may have {room} more runs below it")]
    TooManySubRuns {
        /// Runs that it may still have.
        room: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
