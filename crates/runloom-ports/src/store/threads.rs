//! History of sessions, and the threads of AG-UI: which session a thread is, and the AG-UI runs that it has seen.

use async_trait::async_trait;
use runloom_protocol::id::{RunId, SessionId};

use super::{Millis, NewSession, RunNo, SessionNo, StoreResult, WorkspaceNo};

/// Reading the runs of a session in their order, and remembering threads.
#[async_trait]
pub trait Threads: Send + Sync {
    /// Runs of a session before `before` (all when `None`), newest first, with any outcome.
    async fn history_runs(
        &self,
        session: SessionNo,
        before: Option<RunNo>,
        limit: usize,
    ) -> StoreResult<Vec<HistoryRun>>;

    /// When the batches with events after `seq` were written, oldest first.
    async fn log_times(&self, run: RunNo, seq: u64, limit: usize) -> StoreResult<Vec<LogTime>>;

    /// The session of a thread.
    async fn thread(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<Option<SessionId>>;

    /// Creates the session of a thread, or returns the existing one. Concurrent calls get the same session. The
    /// session's idempotency key is not used.
    async fn create_thread(&self, session: NewSession, key: &str) -> StoreResult<ThreadCreated>;

    /// Stores an AG-UI run and the ids of its tool messages, in one transaction. An id that a call has already is
    /// kept. An AG-UI run that the thread has already is followed again and nothing changes.
    async fn open_ag_ui_run(
        &self,
        session: SessionNo,
        run: NewAgUiRun,
    ) -> StoreResult<OpenedAgUiRun>;

    /// Deletes an AG-UI run whose request was refused.
    async fn withdraw_ag_ui_run(&self, session: SessionNo, id: &str) -> StoreResult<()>;

    /// Whether a client has begun to follow the thread since then.
    async fn followed_since(&self, session: SessionNo, since: Millis) -> StoreResult<bool>;

    /// The ids that clients gave to the results of calls.
    async fn tool_messages(&self, session: SessionNo) -> StoreResult<Vec<ToolMessageId>>;
}

/// A run of a session, with its request.
#[derive(Debug, Clone)]
pub struct HistoryRun {
    /// Its number; later runs have higher ones.
    pub no: RunNo,
    /// Public id.
    pub id: RunId,
    /// The run has ended.
    pub ended: bool,
    /// See [`super::NewRun::spec`].
    pub spec: String,
    /// Accepted.
    pub created_at: Millis,
}

/// When a batch of a log was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTime {
    /// Number of its last event.
    pub last_seq: u64,
    /// When it was written.
    pub at: Millis,
}

/// Answer to [`Threads::create_thread`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadCreated {
    /// The session is there.
    New,
    /// The thread has this session.
    Existing(SessionId),
}

/// An AG-UI run to be remembered.
#[derive(Debug, Clone)]
pub struct NewAgUiRun {
    /// The client's `runId`.
    pub id: String,
    /// The data needed to send it again, JSON; opaque to the store.
    pub body: String,
    /// Now.
    pub at: Millis,
    /// Ids of the messages that answer calls.
    pub tool_messages: Vec<ToolMessageId>,
}

/// The id that a client gave to the result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolMessageId {
    /// Which call.
    pub tool_use_id: String,
    /// The id of the message.
    pub message_id: String,
}

/// Answer to [`Threads::open_ag_ui_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedAgUiRun {
    /// It is remembered.
    New,
    /// The thread has seen it; this is its [`NewAgUiRun::body`].
    Seen(String),
}
