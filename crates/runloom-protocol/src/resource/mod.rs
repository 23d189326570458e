//! What GET answers, and the small answers of POST. Times are RFC 3339 strings. A field that is `Option` here is on
//! the wire as `null` when there is nothing, unless its doc says that it is left out.

mod approval;
mod document;
mod feedback;
mod memory;
mod model;
mod run;
mod session;
mod usage;

use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionId};

pub use approval::{Approval, ApprovalList, ApprovalReceipt};
pub use document::{
    AgentList, AgentListItem, InstalledFrom, InstalledPlugin, InstalledToolset, StoredDocument,
    ToolsetTool, ToolsetToolList,
};
pub use feedback::{FeedbackItem, FeedbackList, FeedbackReceipt, TargetKind};
pub use memory::{MemoriesForgotten, MemoryInfo, MemoryLinkInfo, MemoryList};
pub use model::{CatalogEntry, ModelCatalog, ModelSource, Pricing};
pub use run::{RunList, RunListItem, RunSnapshot, RunStatus};
pub use session::{
    SessionEvent, SessionEventKind, SessionEvents, SessionList, SessionListItem, SessionSnapshot,
    SessionStatus,
};
pub use usage::{AppliedBudget, DryRun, UsageGroupBy, UsageLine, UsageReport, UsageSums};

/// A run has been accepted and is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAccepted {
    /// Which run.
    pub run_id: RunId,
    /// Path of its stream.
    pub stream_url: String,
}

/// A session has been created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    /// Which session.
    pub session_id: SessionId,
}

/// `{"ok":true}`: accepted, nothing more to say. Write it `resource::Ok`, so that nobody takes it for the `Result`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ok {
    /// Always true.
    pub ok: bool,
}

impl Default for Ok {
    fn default() -> Self {
        Self { ok: true }
    }
}
