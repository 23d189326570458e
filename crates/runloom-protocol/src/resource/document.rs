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
    /// What of it will not work as things are; only in the answer to whoever put it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A plugin that a workspace has without having been given it: the operator configured it, or it comes with the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    /// `@plugin`.
    pub name: String,
    /// Where it comes from.
    pub source: InstalledFrom,
    /// Its own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The names of its tools and of its MCP servers.
    pub tools: Vec<String>,
}

/// Where a plugin comes from that no workspace keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstalledFrom {
    /// The operator's configuration.
    Operator,
    /// The server itself.
    Shipped,
    /// Somewhere that this version does not know.
    #[serde(other)]
    Other,
}

impl InstalledFrom {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Shipped => "shipped",
            Self::Other => "other",
        }
    }
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
