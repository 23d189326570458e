//! Approvals: durable requests for a person's decision about a tool call.

use async_trait::async_trait;
use runloom_protocol::approval::{ApprovalStatus, DecidedBy, Ruling};
use runloom_protocol::event::ApprovalRequested;
use runloom_protocol::id::{ApprovalId, RunId, SessionId};
use runloom_protocol::policy::Approver;
use runloom_protocol::spec::Metadata;

use super::{Delivery, Idempotency, Millis, Page, RunNo, StoreResult, WorkspaceNo};

/// Stores approvals and accepts decisions.
///
/// Contract: an approval is opened by [`super::Batch::approvals`], in the transaction of its event, and decided once:
/// by a person ([`Self::decide_approval`]), by its time limit ([`super::Batch::expired_approvals`]), or by the end of
/// its run, which makes it `cancelled`. It is deleted with its run. No method crosses workspaces.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// Accepts a decision: marks the approval as decided and writes the mail to its run in one transaction. An
    /// approval that has expired by `now` is marked as expired, even if its run has not noticed yet.
    async fn decide_approval(&self, decision: PutDecision) -> StoreResult<DecisionDelivery>;

    /// One approval of a workspace.
    async fn approval(
        &self,
        workspace: WorkspaceNo,
        id: &ApprovalId,
    ) -> StoreResult<Option<ApprovalRow>>;

    /// A page of approvals of a workspace, newest first. It ends early at about `max_bytes` of requests and
    /// decisions, but has at least one row.
    async fn list_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
        page: Page,
        max_bytes: usize,
    ) -> StoreResult<ApprovalPage>;

    /// How many match.
    async fn count_approvals(
        &self,
        workspace: WorkspaceNo,
        filter: &ApprovalFilter,
    ) -> StoreResult<u64>;

    /// Pending approvals of a run and of the runs below it, oldest first.
    async fn pending_approvals(&self, run: RunNo) -> StoreResult<Vec<ApprovalId>>;

    /// Pending approvals of all workspaces.
    async fn approval_census(&self) -> StoreResult<ApprovalCensus>;
}

/// An approval to be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct NewApproval {
    /// The request, as in its event.
    pub request: ApprovalRequested,
    /// Deadline, after which it counts as denied.
    pub expires_at: Millis,
    /// Who may decide.
    pub approver: Approver,
    /// Checks of edited arguments, JSON; opaque to the store.
    pub checks: String,
}

/// A stored approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRow {
    /// Its number; also the key of paging.
    pub no: i64,
    /// The request.
    pub request: ApprovalRequested,
    /// Its state.
    pub status: ApprovalStatus,
    /// The run that a client started.
    pub root: RunId,
    /// The agent of the run that asks.
    pub agent_id: Option<String>,
    /// The session of the run that asks.
    pub session: Option<SessionId>,
    /// Labels of the run that asks.
    pub metadata: Metadata,
    /// See [`NewApproval::checks`].
    pub checks: String,
    /// When it was opened.
    pub created_at: Millis,
    /// When it expires.
    pub expires_at: Millis,
    /// The decision; `None` while it is pending, and when the run ended first.
    pub decision: Option<StoredDecision>,
}

/// A stored decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// The decision.
    pub ruling: Ruling,
    /// The person or key that decided.
    pub by: DecidedBy,
    /// When.
    pub at: Millis,
}

/// A decision to be accepted.
#[derive(Debug, Clone)]
pub struct PutDecision {
    /// Owner.
    pub workspace: WorkspaceNo,
    /// The run that asks, or one of its ancestors.
    pub run: RunId,
    /// Which approval.
    pub approval: ApprovalId,
    /// The decision.
    pub ruling: Ruling,
    /// The person or key that decides.
    pub by: DecidedBy,
    /// The client's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// Now.
    pub now: Millis,
}

/// Answer to [`Approvals::decide_approval`].
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionDelivery {
    /// Durable; the approval as it is now.
    Accepted(Delivery, Box<ApprovalRow>),
    /// A repetition: the same decision, or the same key and body.
    Same(Box<ApprovalRow>),
    /// Another decision was made before, or the time limit has passed.
    Decided(Box<ApprovalRow>),
    /// The key was used with another body.
    KeyReused,
    /// Only the credential that started the root may decide this approval.
    NotForThisCredential,
    /// The run has ended, or is about to.
    Terminal,
    /// No such approval of this run or of a run below it.
    UnknownApproval,
    /// No such run in this workspace.
    UnknownRun,
}

/// Which approvals a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// One status.
    pub status: Option<ApprovalStatus>,
    /// Of this run alone.
    pub run: Option<RunId>,
    /// Of this root and the runs below it.
    pub root: Option<RunId>,
    /// Not of runs that are private to other owners than this one.
    pub visible_to: Option<String>,
}

/// A page of approvals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalPage {
    /// The rows, newest first.
    pub rows: Vec<ApprovalRow>,
    /// Whether rows of the page were left out because of its size.
    pub cut: bool,
}

/// Pending approvals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApprovalCensus {
    /// How many.
    pub pending: u64,
    /// When the oldest was opened.
    pub oldest: Option<Millis>,
}

impl ApprovalRow {
    /// The response to a decision about an approval that is no longer pending; `None` while it is pending.
    #[must_use]
    pub fn answer_to(&self, ruling: &Ruling) -> Option<DecisionDelivery> {
        let row = || Box::new(self.clone());
        let same = |decided: &StoredDecision| decided.ruling.decides_as(ruling);
        match self.status {
            ApprovalStatus::Pending => None,
            ApprovalStatus::Cancelled => Some(DecisionDelivery::Terminal),
            ApprovalStatus::Expired => Some(DecisionDelivery::Decided(row())),
            ApprovalStatus::Approved | ApprovalStatus::Denied => {
                Some(if self.decision.as_ref().is_some_and(same) {
                    DecisionDelivery::Same(row())
                } else {
                    DecisionDelivery::Decided(row())
                })
            }
        }
    }
}
