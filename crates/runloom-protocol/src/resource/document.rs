//! What a workspace keeps, as it is shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::AgentId;

/// A document of the admin API: an agent, a tool, a plugin, a secret, an external agent or a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredDocument {
    /// Which document.
    pub id: String,
    /// Its name in the workspace.
    pub slug: String,
    /// From 1; rises with every change.
    pub version: u64,
    /// When it was first put.
    pub created_at: String,
    /// When this version was put.
    pub updated_at: String,
    /// What it says, literal credentials as `***`; left out for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
}

/// `GET /agents`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    /// The agents that the credential may run, by slug.
    pub agents: Vec<AgentListItem>,
}

/// One agent of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentListItem {
    /// What `agentId` takes.
    pub id: AgentId,
    /// Its name in URLs.
    pub slug: String,
    /// For people.
    pub name: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// Its model as it was written; `null` = the workspace's default.
    pub model_id: Option<String>,
    /// Its version.
    pub version: u64,
    /// When it was first put.
    pub created_at: String,
    /// When this version was put.
    pub updated_at: String,
}
