//! Sessions: stored conversations.

use async_trait::async_trait;
use runloom_protocol::id::SessionId;
use runloom_protocol::resource::SessionStatus;
use runloom_protocol::spec::{Metadata, PromptMessage};

use super::{Delivery, Idempotency, Millis, Page, SessionNo, StoreResult, WorkspaceNo};

/// Creating, reading and ending sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Whether other processes may write to this store while it is open here.
    fn is_shared(&self) -> bool;

    /// Inserts a session and its idempotency key, in one transaction.
    async fn create_session(&self, session: NewSession) -> StoreResult<CreatedSession>;

    /// One session of a workspace, without its messages.
    async fn session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
    ) -> StoreResult<Option<SessionRow>>;

    /// Messages of a session that clients may see, oldest first, numbered from 1: the last `limit` of those before
    /// `before` (of all when `None`). The page ends early at `max_bytes`, but has at least one message.
    async fn session_messages(
        &self,
        session: SessionNo,
        before: Option<u64>,
        limit: usize,
        max_bytes: usize,
    ) -> StoreResult<Vec<(u64, PromptMessage)>>;

    /// A session for its next message: its row, the messages after the first `known` ones (no messages when `known`
    /// is missing), and whether one of its runs is alive.
    async fn resume_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        known: Option<u64>,
    ) -> StoreResult<Option<ResumedSession>>;

    /// How many messages of a session clients may see.
    async fn count_messages(&self, session: SessionNo) -> StoreResult<u64>;

    /// Ends a session and sends a cancel (`session_ended`) to each of its live runs, in one transaction.
    async fn end_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        now: Millis,
    ) -> StoreResult<Ended>;

    /// Sessions of a workspace, newest first. Their specs are not read.
    async fn list_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
        page: Page,
    ) -> StoreResult<Vec<SessionSummary>>;

    /// How many sessions match.
    async fn count_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
    ) -> StoreResult<u64>;
}

/// Answer to [`Sessions::resume_session`].
#[derive(Debug, Clone)]
pub struct ResumedSession {
    /// The session.
    pub row: SessionRow,
    /// The messages that the caller does not know, oldest first.
    pub since: Vec<PromptMessage>,
    /// Whether one of its runs is alive: the next one waits for its end.
    pub busy: bool,
}

/// A session to be created.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Public id.
    pub id: SessionId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// A label.
    pub name: Option<String>,
    /// The stored spec, JSON; opaque to the store.
    pub spec: String,
    /// The public spec, JSON, without secrets.
    pub public_spec: String,
    /// Client labels.
    pub metadata: Metadata,
    /// Now.
    pub created_at: Millis,
    /// Optional `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
    /// The personal owner of the session: it is hidden from other personal owners.
    pub private_to: Option<String>,
}

/// Answer to [`Sessions::create_session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedSession {
    /// The session is there.
    New,
    /// The same key and body were sent before; the session created then.
    Replayed(SessionId),
    /// The key was used with another body.
    KeyReused,
}

/// A session as it is stored.
#[derive(Debug, Clone)]
pub struct SessionRow {
    /// Its number.
    pub no: SessionNo,
    /// Public id.
    pub id: SessionId,
    /// A label.
    pub name: Option<String>,
    /// Active or ended.
    pub status: SessionStatus,
    /// See [`NewSession::spec`].
    pub spec: String,
    /// See [`NewSession::public_spec`].
    pub public_spec: String,
    /// Catalog id of the model that its runs use since one of them fell back.
    pub active_model: Option<String>,
    /// Client labels.
    pub metadata: Metadata,
    /// Created.
    pub created_at: Millis,
    /// Last message accepted or finished.
    pub last_used_at: Millis,
    /// Ended.
    pub ended_at: Option<Millis>,
}

/// A session in a list.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// Its number; also the key of paging.
    pub no: SessionNo,
    /// Public id.
    pub id: SessionId,
    /// A label.
    pub name: Option<String>,
    /// Active or ended.
    pub status: SessionStatus,
    /// Client labels.
    pub metadata: Metadata,
    /// Created.
    pub created_at: Millis,
    /// Last message accepted or finished.
    pub last_used_at: Millis,
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Active or ended.
    pub status: Option<SessionStatus>,
    /// Labels that must all match.
    pub metadata: Vec<(String, String)>,
    /// Hides sessions that are private to other owners.
    pub visible_to: Option<String>,
}

/// Answer to [`Sessions::end_session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The session is ended, now or before; these runs have to be woken.
    Ended(Vec<Delivery>),
    /// No such session in this workspace.
    UnknownSession,
}
