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
    /// What the first request with this key was answered.
    async fn earlier(&self, workspace: WorkspaceNo, key: &Idempotency) -> StoreResult<Earlier>;

    /// Inserts a run, its idempotency key and, when asked, its first lease and event, in one transaction.
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

    /// Accepts a client's answer: the call is marked answered and the mail written in one transaction.
    async fn deliver_tool_result(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        answer: &SubmitToolResult,
        idempotency: Option<&Idempotency>,
        now: Millis,
    ) -> StoreResult<ToolDelivery>;

    /// Accepts a cancel; one already waiting is not written twice.
    async fn cancel_run(
        &self,
        workspace: WorkspaceNo,
        id: &RunId,
        reason: &str,
        now: Millis,
    ) -> StoreResult<Cancelled>;

    /// How many runs of each workspace wait for their first worker, those behind an earlier one of their session
    /// included. Workspaces without any may be missing.
    async fn backlog(&self) -> StoreResult<Vec<(WorkspaceNo, u64)>>;

    /// How many runs live, by who has them.
    async fn census(&self) -> StoreResult<Census>;
}

/// Live runs, by who has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Nobody: they want a worker, or wait for an earlier run of their session.
    pub waiting: u64,
    /// A worker.
    pub held: u64,
    /// Nobody, until mail or a timer.
    pub parked: u64,
}

/// A client's promise to use a key for one request only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// What the client sent, with the operation in front so that keys of different operations do not meet.
    pub key: String,
    /// Hash of the body.
    pub fingerprint: [u8; 32],
}

/// Answer to [`Runs::earlier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// No request had this key, or it is forgotten.
    None,
    /// The same body came before; this is the id of what it created, empty when it created nothing.
    Same(String),
    /// The key came before with another body; this is the id of what that one created.
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
    /// The session whose message it is.
    pub session: Option<SessionId>,
    /// The stored spec, JSON; the store does not look inside.
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
    /// The personal owner whose run it is: it is hidden from other personal owners.
    pub private_to: Option<String>,
    /// A worker of this process takes the run at once: lease with epoch 1, status `running` and the first chunk come
    /// in the same transaction. Ignored (the run is queued) when the run stands behind another one of its session, or
    /// when more was said in the session than the caller knows.
    pub start: Option<StartNow>,
}

/// See [`NewRun::start`].
#[derive(Debug, Clone)]
pub struct StartNow {
    /// Who takes it.
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
        /// It stands behind another run of its session and needs no worker yet.
        blocked: bool,
    },
    /// The same key and body came before; this is the run of then.
    Replayed(RunId),
    /// The key came before with another body.
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
    /// Where it stands.
    pub status: RunStatus,
    /// Its session.
    pub session: Option<SessionId>,
    /// See [`NewRun::public_spec`].
    pub public_spec: String,
    /// See [`NewRun::input_preview`].
    pub input_preview: String,
    /// Client labels.
    pub metadata: Metadata,
    /// The agent whose prompt it has.
    pub agent_id: Option<String>,
    /// The answer, or what there was of it.
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
    /// The part of the sums that runs below used; `None` without any.
    pub subagents: Option<SubagentUsage>,
    /// Its place in a tree; `None` for a root.
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
    /// Where it stands.
    pub status: RunStatus,
    /// Its session.
    pub session: Option<SessionId>,
    /// Client labels.
    pub metadata: Metadata,
    /// The spec's `name`.
    pub spec_name: Option<String>,
    /// The agent whose prompt it has.
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
    /// Its place in a tree; `None` for a root.
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
    /// Without those that are private to another owner than this one.
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

/// Who has to be told of delivered mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A worker holds the run: wake it.
    Owner(RunNo),
    /// Nobody holds it: it wants a worker.
    Queue(RunNo),
}

/// Answer to [`Runs::deliver_tool_result`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolDelivery {
    /// Durable.
    Accepted(Delivery),
    /// The same key and body came before: nothing new.
    Replayed,
    /// The key came before with another body.
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
