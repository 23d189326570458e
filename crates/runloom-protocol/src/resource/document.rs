//! What a workspace keeps, as it is shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::DeclaredEffect;
use crate::id::AgentId;
use crate::tools::ToolAnnotations;

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

/// A toolset that a workspace has without having been given it: the operator configured it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledToolset {
    /// Its slug.
    pub name: String,
    /// How its MCP server is reached.
    pub transport: String,
    /// Where it comes from.
    pub source: InstalledFrom,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The server's own names of the tools that exist for callers; `null` = all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// `GET …/toolsets/{name}/tools`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolsetToolList {
    /// The tools that the toolset offers, in the order of its MCP server.
    pub tools: Vec<ToolsetTool>,
}

/// A tool of a toolset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetTool {
    /// The server's own name.
    pub name: String,
    /// The name that the model sees.
    pub model_name: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the output; left out when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints of the server; left out when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// What repeating a call does.
    pub effect: DeclaredEffect,
}

/// Where a plugin or a toolset comes from that no workspace keeps.
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
