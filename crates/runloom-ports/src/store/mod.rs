//! The store port: the log, the runs, the sessions, the tenants, their documents and their memories; the people who
//! sign in and what they allow apps.
//!
//! Rules every implementation keeps (and the contract tests check):
//! - An `Ok` is durable: it survives a power cut. An `Err` changed nothing.
//! - Only [`RunLog::commit`] writes a run's log, and only for the holder of the lease: an older epoch is
//!   [`CommitError::Fenced`].
//! - Times come from the caller; the store has no clock. Ids come from the caller; row numbers are the store's.
//! - Rows are reached through a [`WorkspaceNo`] on every path that a client's id can take, so another tenant's id is
//!   simply not found.

mod approvals;
mod feedback;
mod ledger;
mod log;
mod memory;
mod oauth;
mod people;
mod project;
mod registry;
mod retention;
mod runs;
mod sessions;
mod tenancy;
mod threads;
mod tree;

pub use approvals::{
    ApprovalCensus, ApprovalFilter, ApprovalPage, ApprovalRow, Approvals, DecisionDelivery,
    NewApproval, PutDecision, StoredDecision,
};
pub use feedback::{Feedback, FeedbackFilter, FeedbackPage, FeedbackPut, FeedbackRow, PutFeedback};
pub use ledger::{
    BudgetLimit, BudgetScope, BudgetState, CostRange, Day, DayRange, Ledger, MicroUsd, Month,
    Reservation, UsageDelta, UsageGroup, UsageRow,
};
pub use log::{
    Batch, Chunk, Claim, ClaimOutcome, Claimable, CommitError, Committed, Ending, Lease, LogEntry,
    Mail, MailBody, MailNo, Next, OpenCall, RunLog,
};
pub use memory::{Memories, MemoryLink, MemoryRow, PutMemory, Remembered};
pub use oauth::{
    AppRow, CODES_MAX, CodeRow, Consent, GRANTS_MAX, GrantFilter, GrantRow, NewCode, NewGrant,
    NewToken, OAuth, PutApp, TOKENS_MAX, TokenRow,
};
pub use people::{People, PersonRow, PutPerson};
pub use project::{
    CallReceipt, InviteRow, InviteStatus, OwnerErasure, ProjectChange, ProjectChanged, ProjectData,
    ProjectRecord, ProjectWrite, RECEIPT_MILLIS, RecordKind, RecordQuery,
};
pub use registry::{
    Deleted, Document, DocumentKind, Expect, Put, PutDocument, Registry, Resealed, Sealed,
    SealedKey, VERSIONS_KEPT,
};
pub use retention::{Cutoffs, Purged, Retention};
pub use runs::{
    Cancelled, Census, Created, Delivery, Earlier, Idempotency, NewRun, PREVIEW_CHARS, Page,
    RunFilter, RunRow, RunSummary, Runs, StartNow, ToolDelivery, TreeFilter,
};
pub use sessions::{
    CreatedSession, Ended, NewSession, ResumedSession, SessionFilter, SessionRow, SessionSummary,
    Sessions,
};
pub use tenancy::{KeyRow, KeyUsage, NewKey, Tenancy, WorkspaceRow};
pub use threads::{
    HistoryRun, LogTime, NewAgUiRun, OpenedAgUiRun, ThreadCreated, Threads, ToolMessageId,
};
pub use tree::{
    ForwardedEvent, Lineage, NewSubRun, OutgoingMail, SubRunEnded, SubRunOutcome, SubRuns,
    TreeUsage,
};

/// Everything a server keeps.
pub trait Store:
    RunLog
    + Runs
    + Sessions
    + Retention
    + Tenancy
    + Registry
    + Ledger
    + Memories
    + People
    + OAuth
    + Feedback
    + Approvals
    + Threads
    + ProjectData
{
}

impl<T> Store for T where
    T: RunLog
        + Runs
        + Sessions
        + Retention
        + Tenancy
        + Registry
        + Ledger
        + Memories
        + People
        + OAuth
        + Feedback
        + Approvals
        + Threads
        + ProjectData
{
}

/// Row number of a run: narrow, rising, internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunNo(pub i64);

/// Row number of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionNo(pub i64);

/// Row number of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceNo(pub i64);

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Millis(pub i64);

/// The store failed; nothing of the request was kept.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What the caller can do about it.
    pub kind: StoreErrorKind,
    /// What failed, for the operator.
    pub message: String,
    /// The database's own words.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What a caller can do about a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Busy, unreachable or full: trying again later may help.
    Unavailable,
    /// The database, or this program's use of it, is broken.
    Broken,
}

/// Result of store calls.
pub type StoreResult<T> = Result<T, StoreError>;
