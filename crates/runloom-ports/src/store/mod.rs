//! The store port: log, runs, sessions, tenants, documents, memories, users and OAuth grants.
//!
//! Rules that every implementation keeps and the contract tests check:
//! - An `Ok` is durable: it survives a power cut. An `Err` changed nothing.
//! - Only [`RunLog::commit`] writes a run's log, and only for the holder of the lease: an older epoch is
//!   [`CommitError::Fenced`].
//! - Times come from the caller; the store has no clock. Ids come from the caller; row numbers are the store's.
//! - Every path that takes an id from a client also takes a [`WorkspaceNo`], so an id of another tenant is not found.

mod approvals;
mod feedback;
mod ledger;
mod log;
mod memory;
mod oauth;
mod project;
mod registry;
mod retention;
mod runs;
mod sessions;
mod tenancy;
mod threads;
mod tree;
mod users;

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
pub use users::{UserChange, UserRow, Users};

/// All tables of a server.
pub trait Store:
    RunLog
    + Runs
    + Sessions
    + Retention
    + Tenancy
    + Registry
    + Ledger
    + Memories
    + Users
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
        + Users
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

impl Millis {
    /// The number as the wire has it; zero for a clock before 1970.
    #[must_use]
    pub fn since_epoch(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
}

/// The store failed and changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// Whether a retry may help.
    pub kind: StoreErrorKind,
    /// The failure, for the operator.
    pub message: String,
    /// The database's own words.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Whether a retry of a failed store call may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Busy, unreachable or full: a later retry may help.
    Unavailable,
    /// The database, or this program's use of it, is broken.
    Broken,
}

/// Result of store calls.
pub type StoreResult<T> = Result<T, StoreError>;
