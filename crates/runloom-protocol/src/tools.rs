//! Tool refs: the tools of a spec, by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::read::keywords;

/// A JSON object kept as the client wrote it.
pub type Object = Map<String, Value>;

/// One entry of `tools`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolRef {
    /// A workspace tool: HTTP, code or plugin; the server runs it.
    Mantyx(WorkspaceToolRef),
    /// A tool of an installed plugin; the server runs it.
    MantyxPlugin(PluginToolRef),
    /// A function of the client.
    Local(LocalTool),
    /// A remote agent that the server calls.
    A2a(A2aTool),
    /// A remote agent that the client calls.
    A2aLocal(A2aLocalTool),
    /// An MCP server that the server connects to.
    Mcp(McpTool),
    /// An MCP server that the client is connected to.
    McpLocal(McpLocalTool),
}

keywords! {
    /// The kinds of [`ToolRef`].
    pub enum ToolRefKind {
        /// See [`ToolRef::Mantyx`].
        Mantyx = "mantyx",
        /// See [`ToolRef::MantyxPlugin`].
        MantyxPlugin = "mantyx_plugin",
        /// See [`ToolRef::Local`].
        Local = "local",
        /// See [`ToolRef::A2a`].
        A2a = "a2a",
        /// See [`ToolRef::A2aLocal`].
        A2aLocal = "a2a_local",
        /// See [`ToolRef::Mcp`].
        Mcp = "mcp",
        /// See [`ToolRef::McpLocal`].
        McpLocal = "mcp_local",
    }
}

impl ToolRef {
    /// Whether the server executes it, not the client.
    #[must_use]
    pub fn is_server_resolved(&self) -> bool {
        match self {
            Self::Mantyx(_) | Self::MantyxPlugin(_) | Self::A2a(_) | Self::Mcp(_) => true,
            Self::Local(_) | Self::A2aLocal(_) | Self::McpLocal(_) => false,
        }
    }

    /// The headers that it sends to its peer; their values are secrets.
    pub fn headers_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        match self {
            Self::A2a(tool) => Some(&mut tool.headers),
            Self::Mcp(tool) => Some(&mut tool.headers),
            _ => None,
        }
    }
}

/// `kind: "mantyx"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceToolRef {
    /// Id of the tool's row.
    pub id: String,
}

/// `kind: "mantyx_plugin"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginToolRef {
    /// `web_search` or `@plugin/tool`.
    pub name: String,
}

/// `kind: "local"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalTool {
    /// Model-facing name.
    pub name: String,
    /// What the model is told about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// JSON Schema of the output, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Adds the long-running note to the description.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_running: bool,
    /// Calls of one turn may be published at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Results are replayed on later turns of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retain: bool,
}

/// `kind: "a2a"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aTool {
    /// Model-facing name.
    pub name: String,
    /// Card URL or JSON-RPC root.
    pub agent_card_url: String,
    /// Sent with each request; secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Continues a remote conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// What the model is told about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// `kind: "a2a_local"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aLocalTool {
    /// Model-facing name.
    pub name: String,
    /// The remote agent's card, whole, echoed unchanged on every call.
    pub agent_card: Object,
    /// Replaces the description made from the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// `kind: "mcp"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpTool {
    /// Prefix of the model-facing names.
    pub name: String,
    /// Streamable HTTP endpoint.
    pub url: String,
    /// Sent with each request; secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Names of the tools to expose; `None` = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
}

/// `kind: "mcp_local"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpLocalTool {
    /// The server's label, echoed as `mcpServer`.
    pub name: String,
    /// The server's own description of itself, echoed unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Object>,
    /// 1–64 tools, each exposed under its own name.
    pub tools: Vec<McpToolEntry>,
}

/// A tool of an `mcp_local` server, as MCP lists it. Fields that we do not know are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolEntry {
    /// Model-facing name.
    pub name: String,
    /// What the model is told about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the output, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints, echoed on each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Whatever else the server said about the tool.
    #[serde(flatten)]
    pub rest: Object,
}
