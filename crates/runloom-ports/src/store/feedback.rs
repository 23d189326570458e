//! Feedback on the answers of runs.

use async_trait::async_trait;
use runloom_protocol::id::{FeedbackId, RunId, SessionId};
use runloom_protocol::spec::Verdict;

use super::{Millis, Page, StoreResult, WorkspaceNo};

/// Stores feedback.
///
/// Contract: a run has at most one. A later one replaces it and keeps its id and the time of the first. It is deleted
/// with its run. No method crosses workspaces.
#[async_trait]
pub trait Feedback: Send + Sync {
    /// Stores the feedback on a run.
    async fn put_feedback(&self, put: PutFeedback) -> StoreResult<FeedbackPut>;

    /// A page of feedback of a workspace, newest first. It ends early at `max_bytes` of texts, but has at least one
    /// row.
    async fn list_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<FeedbackPage>;

    /// How many match.
    async fn count_feedback(
        &self,
        workspace: WorkspaceNo,
        filter: &FeedbackFilter,
    ) -> StoreResult<u64>;
}

/// Feedback to store.
#[derive(Debug, Clone)]
pub struct PutFeedback {
    /// Its id, when it is the run's first.
    pub id: FeedbackId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// The run.
    pub run: RunId,
    /// Good or bad.
    pub verdict: Verdict,
    /// Why.
    pub explanation: Option<String>,
    /// The text that the person saw.
    pub snapshot: Option<String>,
    /// Now.
    pub now: Millis,
}

/// Answer to [`Feedback::put_feedback`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackPut {
    /// It is the run's first.
    New,
    /// The feedback with this id was replaced.
    Replaced(FeedbackId),
    /// No such run in this workspace.
    UnknownRun,
}

/// Which feedback a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedbackFilter {
    /// Good or bad.
    pub verdict: Option<Verdict>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Of the runs of this session.
    pub session: Option<SessionId>,
    /// Of the runs of this agent.
    pub agent_id: Option<String>,
    /// Not of runs that are private to other owners than this one.
    pub visible_to: Option<String>,
}

/// Answer to [`Feedback::list_feedback`].
#[derive(Debug, Clone, Default)]
pub struct FeedbackPage {
    /// Newest first.
    pub rows: Vec<FeedbackRow>,
    /// The page was cut because of its bytes.
    pub cut: bool,
}

/// Feedback as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackRow {
    /// Its number; also the key of paging.
    pub no: i64,
    /// Public id.
    pub id: FeedbackId,
    /// Good or bad.
    pub verdict: Verdict,
    /// Why.
    pub explanation: Option<String>,
    /// The text that the person saw.
    pub snapshot: Option<String>,
    /// The run.
    pub run: RunId,
    /// The run's session, while that is there.
    pub session: Option<SessionId>,
    /// The run's agent.
    pub agent_id: Option<String>,
    /// Time of the first feedback on the run.
    pub created_at: Millis,
    /// When it was last changed.
    pub updated_at: Millis,
}
