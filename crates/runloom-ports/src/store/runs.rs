//! The API's side of runs: creating, reading, answering, cancelling.

use async_trait::async_trait;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::outcome::{FailureReason, ModelInfo, RunCancelled, SubagentUsage, Tokens};
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{Metadata, SubmitToolResult};

use super::{Chunk, Lease, Lineage, Millis, RunNo, StoreResult, WorkspaceNo};

/// Characters of a prompt and of an answer that lists show.
pub const PREVIEW_CHARS: usize = 200;

/// Creating runs and talking to them.
#[async_trait]
pub trait Runs: Send + Sync {
    /// The outcome of the first request with this key.
    async fn earlier(&self, workspace: WorkspaceNo, key: &Idempotency) -> StoreResult<Earlier>;

    /// Inserts a run, its idempotency key and, if requested, its first lease and event, in one transaction.
    async fn create_run(&self, run: NewRun) -> StoreResult<Created>;

    /// One run of a workspace.
    async fn run(&self, workspace: WorkspaceNo, id: &RunId) -> StoreResult<Option<RunRow>>;

    /// Runs of a workspace, newest first. Neither their specs nor their whole answers are read.
    async fn list_runs(
        &self,
        workspace: WorkspaceNo,
        filter: &RunFilter,
        page: Page,
    ) -> StoreResult<Vec<RunSummary>>;

    /// How many runs match.
    async fn count_runs(&self, workspace: WorkspaceNo, filter: &RunFilter) -> StoreResult<u64>;

    /// Accepts a client's answer: marks the call as answered and writes the mail in one transaction.
    async fn deliver_tool_result(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        answer: &SubmitToolResult,
        idempotency: Option<&Idempotency>,
        now: Millis,
    ) -> StoreResult<ToolDelivery>;

    /// Accepts a cancel. A second cancel that is not folded yet is not written again.
    async fn cancel_run(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        reason: &str,
        now: Millis,
    ) -> StoreResult<Cancelled>;

    /// Number of runs per workspace that wait for their first worker, including those behind an earlier run of their
    /// session. Workspaces without any may be missing.
    async fn backlog(&self) -> StoreResult<Vec<(WorkspaceNo, u64)>>;

    /// Number of live runs, by state.
    async fn census(&self) -> StoreResult<Census>;
}

/// Number of live runs, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Waiting for a worker, or for an earlier run of their session.
    pub waiting: u64,
    /// A worker.
    pub held: u64,
    /// Waiting for mail or a timer.
    pub parked: u64,
}

/// An idempotency key with the hash of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's key, prefixed with the operation so that keys of different operations do not collide.
    pub key: String,
    /// Hash of the body.
    pub fingerprint: [u8; 32],
}

/// Answer to [`Runs::earlier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// No request had this key, or it is forgotten.
    None,
    /// The same body was sent before; the id of what it created, empty when it created nothing.
    Same(String),
    /// The key was used with another body; the id of what that request created.
    OtherBody(String),
}

/// A run to be created.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Public id.
    pub id: RunId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// Id of the credential that started it.
    pub credential: String,
    /// The session of the message.
    pub session: Option<SessionId>,
    /// The stored spec, JSON; opaque to the store.
    pub spec: String,
    /// The public spec, JSON, without secrets: `agentSpec` of the snapshot.
    pub public_spec: String,
    /// Client labels.
    pub metadata: Metadata,
    /// For lists.
    pub spec_name: Option<String>,
    /// For lists.
    pub agent_id: Option<String>,
    /// Catalog id, for lists.
    pub model_id: String,
    /// The first [`PREVIEW_CHARS`] of the prompt, for lists.
    pub input_preview: String,
    /// Now.
    pub created_at: Millis,
    /// Optional `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
    /// The personal owner of the run: it is hidden from other personal owners.
    pub private_to: Option<String>,
    /// A worker of this process claims the run at once: lease with epoch 1, status `running` and the first chunk are
    /// part of the transaction. Ignored (the run is queued) when the run is behind another one of its session, or
    /// when the session has messages that the caller does not know.
    pub start: Option<StartNow>,
}

/// See [`NewRun::start`].
#[derive(Debug, Clone)]
pub struct StartNow {
    /// The worker.
    pub worker: String,
    /// The `started` event.
    pub chunk: Chunk,
    /// How many messages of the session its plan holds; 0 without a session.
    pub history: u64,
}

/// Answer to [`Runs::create_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The run is there.
    New {
        /// Its number.
        run: RunNo,
        /// Set when the caller's worker holds it already.
        lease: Option<Lease>,
        /// It is behind another run of its session and needs no worker yet.
        blocked: bool,
    },
    /// The same key and body were sent before; the run created then.
    Replayed(RunId),
    /// The key was used with another body.
    KeyReused,
    /// No such session in this workspace.
    NoSession,
    /// The session takes no more messages.
    SessionEnded,
}

/// A run as it is stored.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// Its number.
    pub no: RunNo,
    /// Public id.
    pub id: RunId,
    /// Its status.
    pub status: RunStatus,
    /// Its session.
    pub session: Option<SessionId>,
    /// See [`NewRun::public_spec`].
    pub public_spec: String,
    /// See [`NewRun::input_preview`].
    pub input_preview: String,
    /// Client labels.
    pub metadata: Metadata,
    /// The agent it was started with.
    pub agent_id: Option<String>,
    /// The answer, or its beginning if the run failed.
    pub final_text: Option<String>,
    /// Message of the `error` event.
    pub error: Option<String>,
    /// Class of the `error` event.
    pub failure: Option<FailureReason>,
    /// Receipt of a cancel.
    pub cancel: Option<RunCancelled>,
    /// `None` until the end.
    pub tokens: Option<Tokens>,
    /// `None` until the end.
    pub turns: Option<u32>,
    /// `None` until the end.
    pub model: Option<ModelInfo>,
    /// `None` until the end, or without a price.
    pub cost_usd: Option<f64>,
    /// The share of the totals used by runs below; `None` without any.
    pub subagents: Option<SubagentUsage>,
    /// Its position in a tree; `None` for a root.
    pub lineage: Option<Lineage>,
    /// Accepted.
    pub created_at: Millis,
    /// First claimed.
    pub started_at: Option<Millis>,
    /// Ended.
    pub completed_at: Option<Millis>,
}

/// A run in a list.
#[derive(Debug, Clone)]
pub struct RunSummary {
    /// Its number; also the key of paging.
    pub no: RunNo,
    /// Public id.
    pub id: RunId,
    /// Its status.
    pub status: RunStatus,
    /// Its session.
    pub session: Option<SessionId>,
    /// Client labels.
    pub metadata: Metadata,
    /// The spec's `name`.
    pub spec_name: Option<String>,
    /// The agent it was started with.
    pub agent_id: Option<String>,
    /// Catalog id.
    pub model_id: String,
    /// See [`NewRun::input_preview`].
    pub input_preview: String,
    /// The first [`PREVIEW_CHARS`] of the answer.
    pub output_preview: Option<String>,
    /// Message of the `error` event.
    pub error: Option<String>,
    /// `None` until the end.
    pub tokens: Option<Tokens>,
    /// `None` until the end.
    pub turns: Option<u32>,
    /// Tool calls.
    pub tool_calls: u32,
    /// `None` until the end, or without a price.
    pub cost_usd: Option<f64>,
    /// Its position in a tree; `None` for a root.
    pub lineage: Option<Lineage>,
    /// Accepted.
    pub created_at: Millis,
    /// First claimed.
    pub started_at: Option<Millis>,
    /// Ended.
    pub completed_at: Option<Millis>,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// One status.
    pub status: Option<RunStatus>,
    /// One model, catalog id.
    pub model_id: Option<String>,
    /// One agent.
    pub agent_id: Option<String>,
    /// Labels that must all match.
    pub metadata: Vec<(String, String)>,
    /// One session.
    pub session: Option<SessionId>,
    /// Hides runs that are private to other owners.
    pub visible_to: Option<String>,
    /// Which part of the trees.
    pub tree: TreeFilter,
}

/// Which runs of a tree a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TreeFilter {
    /// Runs that a client started.
    #[default]
    Roots,
    /// Roots and all runs below them.
    All,
    /// The children of one run.
    ChildrenOf(RunId),
    /// All runs below one root.
    Below(RunId),
}

/// A page of a list, newest first, by row number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only rows before this number.
    pub before: Option<i64>,
    /// Rows to pass over after that.
    pub offset: usize,
    /// At most this many.
    pub limit: usize,
}

/// The recipient of a wake-up after a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A worker holds the run: wake it.
    Owner(RunNo),
    /// No worker holds it: offer it to the queue.
    Queue(RunNo),
}

/// Answer to [`Runs::deliver_tool_result`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolDelivery {
    /// Durable.
    Accepted(Delivery),
    /// A repetition with the same key and body.
    Replayed,
    /// The key was used with another body.
    KeyReused,
    /// The run was cancelled, or a cancel waits: the answer is not needed.
    Ignored,
    /// The run has ended with `result` or `error`.
    Terminal,
    /// No such call, or answered, or timed out.
    UnknownCall,
    /// No such run in this workspace.
    UnknownRun,
}

/// Answer to [`Runs::cancel_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// Durable.
    Accepted(Delivery),
    /// The run is over, or a cancel waits already.
    Nothing,
    /// No such run in this workspace.
    UnknownRun,
}
