//! What people thought of runs' answers.

use async_trait::async_trait;
use runloom_protocol::id::{FeedbackId, RunId, SessionId};
use runloom_protocol::spec::Verdict;

use super::{Millis, Page, StoreResult, WorkspaceNo};

/// Keeps feedback.
///
/// Contract: a run has one, which later ones replace; it keeps its id and the time of its first. It goes when its run
/// goes. Nothing here reads or writes another workspace's.
#[async_trait]
pub trait Feedback: Send + Sync {
    /// Keeps what was said of a run.
    async fn put_feedback(&self, put: PutFeedback) -> StoreResult<FeedbackPut>;

    /// Feedback of a workspace, newest first: a page, and no more of it than `max_bytes` of texts, but one at least.
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

/// Feedback to be kept.
#[derive(Debug, Clone)]
pub struct PutFeedback {
    /// Its id, when it is the run's first.
    pub id: FeedbackId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// Of what.
    pub run: RunId,
    /// Good or bad.
    pub verdict: Verdict,
    /// Why.
    pub explanation: Option<String>,
    /// What the person saw.
    pub snapshot: Option<String>,
    /// Now.
    pub now: Millis,
}

/// Answer to [`Feedback::put_feedback`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackPut {
    /// It is the run's first.
    New,
    /// The one with this id was replaced.
    Replaced(FeedbackId),
    /// No such run in this workspace.
    UnknownRun,
}

/// Which feedback a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedbackFilter {
    /// Good or bad.
    pub verdict: Option<Verdict>,
    /// Of one run.
    pub run: Option<RunId>,
    /// Of the runs of one session.
    pub session: Option<SessionId>,
    /// Of the runs of one agent.
    pub agent_id: Option<String>,
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
    /// What the person saw.
    pub snapshot: Option<String>,
    /// Of what.
    pub run: RunId,
    /// The run's session, while that is there.
    pub session: Option<SessionId>,
    /// The run's agent.
    pub agent_id: Option<String>,
    /// When it was first said.
    pub created_at: Millis,
    /// When it was last changed.
    pub updated_at: Millis,
}
