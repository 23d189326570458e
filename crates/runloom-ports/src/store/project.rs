//! Data of the shipped project modules: events, invites, contacts and memories of owners.

use async_trait::async_trait;
use runloom_protocol::id::{RunId, SessionId};

use super::{Millis, StoreResult, WorkspaceNo};

/// Stores the data of project modules. A body is opaque to the store.
///
/// Contract:
/// - A record is identified by its workspace, kind, owner and id. No method crosses workspaces.
/// - All writes of a [`ProjectChange`] and its receipt are one transaction. If the receipt exists already, nothing is
///   written and the first response is returned.
/// - Deleting an event deletes its invites.
#[async_trait]
pub trait ProjectData: Send + Sync {
    /// Records that match, by start, then text, then id.
    async fn project_records(
        &self,
        workspace: WorkspaceNo,
        query: RecordQuery,
    ) -> StoreResult<Vec<ProjectRecord>>;

    /// Invites of these events, oldest first.
    async fn invites_of_events(
        &self,
        workspace: WorkspaceNo,
        events: &[String],
    ) -> StoreResult<Vec<InviteRow>>;

    /// Invites that an address got and did not reject, oldest first.
    async fn invites_to(
        &self,
        workspace: WorkspaceNo,
        email: &str,
        limit: usize,
    ) -> StoreResult<Vec<InviteRow>>;

    /// One invite.
    async fn invite(&self, workspace: WorkspaceNo, id: &str) -> StoreResult<Option<InviteRow>>;

    /// The response that a call got before.
    async fn project_receipt(
        &self,
        workspace: WorkspaceNo,
        key: &str,
    ) -> StoreResult<Option<String>>;

    /// Writes, all or nothing.
    async fn change_project(&self, change: ProjectChange) -> StoreResult<ProjectChanged>;

    /// Deletes all data of an owner, and the invites to their address. Returns the number of rows.
    async fn erase_project_owner(&self, erasure: OwnerErasure) -> StoreResult<u64>;

    /// The personal owner of a run; `None` when every credential of the workspace may see it.
    async fn private_owner_of_run(
        &self,
        workspace: WorkspaceNo,
        run: &RunId,
    ) -> StoreResult<Option<String>>;

    /// As [`Self::private_owner_of_run`], of a session.
    async fn private_owner_of_session(
        &self,
        workspace: WorkspaceNo,
        session: &SessionId,
    ) -> StoreResult<Option<String>>;
}

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An event of a calendar.
    Event,
    /// A contact.
    Contact,
    /// A memory.
    Memory,
}

impl RecordKind {
    /// The word in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Contact => "contact",
            Self::Memory => "memory",
        }
    }
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRecord {
    /// Its kind.
    pub kind: RecordKind,
    /// Its owner.
    pub owner: String,
    /// Its name.
    pub id: String,
    /// Of an event: its start and its end.
    pub span: Option<(Millis, Millis)>,
    /// Lower-case text for searches, and the order of lists.
    pub words: String,
    /// JSON.
    pub body: String,
    /// From 1; rises with every change.
    pub version: u64,
}

/// Which records; every field that is there must match.
#[derive(Debug, Clone)]
pub struct RecordQuery {
    /// Their kind.
    pub kind: RecordKind,
    /// Their owner.
    pub owner: Option<String>,
    /// With these ids.
    pub ids: Option<Vec<String>>,
    /// Overlapping this span, its end excluded.
    pub overlaps: Option<(Millis, Millis)>,
    /// Containing this text, in lower case.
    pub contains: Option<String>,
    /// Maximum number.
    pub limit: usize,
}

impl RecordQuery {
    /// All records of a kind and an owner.
    #[must_use]
    pub fn of(kind: RecordKind, owner: &str, limit: usize) -> Self {
        Self {
            kind,
            owner: Some(owner.to_owned()),
            ids: None,
            overlaps: None,
            contains: None,
            limit,
        }
    }
}

/// State of an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteStatus {
    /// Not answered.
    Pending,
    /// Accepted.
    Accepted,
    /// Rejected.
    Rejected,
}

impl InviteStatus {
    /// The word in the database and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Accepted, Self::Rejected];
        all.into_iter().find(|status| status.as_str() == word)
    }
}

/// An invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteRow {
    /// `inv_…`.
    pub id: String,
    /// Its event.
    pub event: String,
    /// The invited address, in lower case.
    pub email: String,
    /// The answer.
    pub status: InviteStatus,
    /// The owner's message.
    pub message: Option<String>,
}

/// One write.
#[derive(Debug, Clone)]
pub enum ProjectWrite {
    /// Inserts a record, unless the owner has `max` of its kind.
    Insert {
        /// The record; its version is ignored.
        record: ProjectRecord,
        /// Records of this kind that an owner may have.
        max: usize,
    },
    /// Replaces a record that has `record.version`.
    Update(ProjectRecord),
    /// Deletes a record, and the invites of an event.
    Delete {
        /// Its kind.
        kind: RecordKind,
        /// Its owner.
        owner: String,
        /// Its name.
        id: String,
    },
    /// Inserts an invite, unless the event has one to this address.
    Invite(InviteRow),
    /// Answers an invite that has the status `from`.
    Answer {
        /// Which invite.
        id: String,
        /// The required status.
        from: InviteStatus,
        /// The new status.
        to: InviteStatus,
    },
}

/// The stored response for a repeated call.
#[derive(Debug, Clone)]
pub struct CallReceipt {
    /// Names the call and its action.
    pub key: String,
    /// JSON.
    pub response: String,
}

/// Writes that belong together.
#[derive(Debug, Clone)]
pub struct ProjectChange {
    /// Where.
    pub workspace: WorkspaceNo,
    /// The acting owner.
    pub owner: String,
    /// The response for a repetition of the call.
    pub receipt: Option<CallReceipt>,
    /// In this order.
    pub writes: Vec<ProjectWrite>,
    /// Now. Receipts are kept for 30 days.
    pub now: Millis,
}

/// Answer to [`ProjectData::change_project`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectChanged {
    /// All of it was written.
    Applied,
    /// The call was made before; its response.
    Replayed(String),
    /// A condition of a write does not hold; nothing was written.
    Conflict,
    /// The owner has the maximum number; nothing was written.
    Full,
}

/// The owner whose data is erased.
#[derive(Debug, Clone)]
pub struct OwnerErasure {
    /// Where.
    pub workspace: WorkspaceNo,
    /// The owner.
    pub owner: String,
    /// Their address, if they have one.
    pub email: Option<String>,
}

/// How long a receipt is kept.
pub const RECEIPT_MILLIS: i64 = 30 * 24 * 3_600_000;
