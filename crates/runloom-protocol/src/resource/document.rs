//! The stored documents of a workspace, as the API returns them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::{
    AgentDefinition, DeclaredEffect, PluginManifest, ProviderDefinition, ToolDefinition,
    ToolsetDefinition,
};
use crate::id::AgentId;
use crate::tools::ToolAnnotations;

/// A stored document of a workspace, with its definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Stored{D}"))]
#[serde(rename_all = "camelCase")]
pub struct StoredDocument<D = Value> {
    /// The id of the document.
    pub id: String,
    /// The name of the document in the workspace.
    pub slug: String,
    /// The version, from 1. Every change raises it.
    pub version: u64,
    /// When the document was created.
    pub created_at: String,
    /// When this version was created.
    pub updated_at: String,
    /// The definition, with literal credentials as `***`. Absent for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<D>,
    /// Parts of the definition that will not work at present, for example a tool that does not exist. Only in responses
    /// to `PUT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A stored secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoredSecret {
    /// The id of the document.
    pub id: String,
    /// The name of the secret in the workspace.
    pub slug: String,
    /// The version, from 1. Every change raises it.
    pub version: u64,
    /// When the secret was created.
    pub created_at: String,
    /// When this version was created.
    pub updated_at: String,
}

macro_rules! document_lists {
    ($($(#[$doc:meta])* $name:ident { $field:ident: $document:ty $(, $more:ident: $more_type:ty)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The documents, by slug.
            pub $field: Vec<$document>,
            $(
                /// Those of the operator's configuration, and those that ship with the server.
                pub $more: Vec<$more_type>,
            )?
        }
    )*};
}

document_lists! {
    /// The agents of a workspace.
    AgentDocuments { agents: StoredDocument<AgentDefinition> }
    /// The tools of a workspace.
    ToolDocuments { tools: StoredDocument<ToolDefinition> }
    /// The plugins of a workspace.
    PluginDocuments { plugins: StoredDocument<PluginManifest>, installed: InstalledPlugin }
    /// The secrets of a workspace, without their values.
    SecretDocuments { secrets: StoredSecret }
    /// The external agents of a workspace. Each is stored as a tool of the type `a2a`.
    ExternalAgentDocuments { external_agents: StoredDocument<ToolDefinition> }
    /// The providers of a workspace.
    ProviderDocuments { providers: StoredDocument<ProviderDefinition> }
    /// The toolsets of a workspace.
    ToolsetDocuments { toolsets: StoredDocument<ToolsetDefinition>, installed: InstalledToolset }
}

/// A plugin that every workspace has: from the operator's configuration, or shipped with the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    /// The name, `@plugin`.
    pub name: String,
    /// The origin of the plugin.
    pub source: InstalledFrom,
    /// The plugin's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The plugin's own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The names of the plugin's tools and MCP servers.
    pub tools: Vec<String>,
}

/// A toolset of the operator's configuration, which every workspace has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstalledToolset {
    /// The slug of the toolset.
    pub name: String,
    /// The transport of the MCP server.
    pub transport: String,
    /// The origin of the toolset.
    pub source: InstalledFrom,
    /// What the toolset is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The MCP server's names of the tools that can be used; `null` means all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// The tools of a toolset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolsetToolList {
    /// The tools, in the order of the MCP server.
    pub tools: Vec<ToolsetTool>,
}

/// A tool of a toolset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolsetTool {
    /// The MCP server's name of the tool.
    pub name: String,
    /// The name that the model sees.
    pub model_name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// The JSON Schema of the output. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The hints of the MCP server. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// What a repeated call does.
    pub effect: DeclaredEffect,
}

/// The origin of an installed plugin or toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InstalledFrom {
    /// The operator's configuration.
    Operator,
    /// The server itself.
    Shipped,
    /// An origin that this version does not know.
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

/// The stored agents of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentList {
    /// The agents that the credential can run, by slug.
    pub agents: Vec<AgentListItem>,
}

/// A stored agent in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentListItem {
    /// The value for `agentId`.
    pub id: AgentId,
    /// The name of the agent in the workspace.
    pub slug: String,
    /// The display name.
    pub name: Option<String>,
    /// What the agent is for.
    pub description: Option<String>,
    /// The model as the definition names it; `null` means the workspace's default.
    pub model_id: Option<String>,
    /// The version of the agent, from 1.
    pub version: u64,
    /// When the agent was created.
    pub created_at: String,
    /// When this version was created.
    pub updated_at: String,
}
