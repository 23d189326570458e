//! What GET answers, and the small answers of POST. Times are RFC 3339 strings. A field that is `Option` here is on
//! the wire as `null` when there is nothing, unless its doc says that it is left out.

mod approval;
mod contact;
mod document;
mod feedback;
mod history;
mod memory;
mod model;
mod run;
mod session;
mod usage;

use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionId};

pub use approval::{Approval, ApprovalList, ApprovalReceipt};
pub use contact::{Contact, ContactList, ContactView, OwnerErased};
pub use document::{
    AgentDocuments, AgentList, AgentListItem, ExternalAgentDocuments, InstalledFrom,
    InstalledPlugin, InstalledToolset, PluginDocuments, ProviderDocuments, SecretDocuments,
    StoredDocument, StoredSecret, ToolDocuments, ToolsetDocuments, ToolsetTool, ToolsetToolList,
};
pub use feedback::{FeedbackItem, FeedbackList, FeedbackReceipt, TargetKind};
pub use history::{
    CallKind, HistoryCall, HistoryFunction, HistoryMessage, HistoryMetadata, HistoryRole,
    SessionHistory,
};
pub use memory::{MemoriesForgotten, MemoryInfo, MemoryLinkInfo, MemoryList};
pub use model::{CatalogEntry, ModelCatalog, ModelSource, Pricing};
pub use run::{EventList, RunList, RunListItem, RunSnapshot, RunStatus};
pub use session::{
    SessionEvent, SessionEventKind, SessionEvents, SessionList, SessionListItem, SessionSnapshot,
    SessionStatus,
};
pub use usage::{AppliedBudget, DryRun, UsageGroupBy, UsageLine, UsageReport, UsageSums};

/// The run was accepted and is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunAccepted {
    /// The id of the run.
    pub run_id: RunId,
    /// The path of the run's event stream.
    pub stream_url: String,
}

/// The session was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    /// The id of the session.
    pub session_id: SessionId,
}

/// The request was carried out.
//
// Written `resource::Ok` in code, to keep it apart from `Result::Ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ok {
    /// Always `true`.
    pub ok: bool,
}

impl Default for Ok {
    fn default() -> Self {
        Self { ok: true }
    }
}
