//! Toolsets: named connections of a workspace to MCP servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plugin::ProcessSpec;
use super::tool::DeclaredEffect;
use crate::policy::Policy;

/// A named connection of a workspace to one MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolsetDefinition {
    /// What the toolset is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the server is reached.
    #[serde(flatten)]
    pub connection: ToolsetConnection,
    /// The MCP server's names of the tools that can be used; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The time limit of one call in milliseconds.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// The idle time in milliseconds after which the connection is closed; absent means the default of the transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_close_ms: Option<u64>,
    /// The administrator's policy. It applies to these tools in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Settings of single tools, by the MCP server's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_settings: BTreeMap<String, ToolSettings>,
}

fn default_timeout_ms() -> u64 {
    crate::limits::TOOL_TIMEOUT_MS_DEFAULT
}

/// How the MCP server of a toolset is reached, by `transport`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum ToolsetConnection {
    /// A toolset over Streamable HTTP.
    StreamableHttp(ToolsetServer),
    /// A toolset over HTTP with server-sent events, the transport of MCP 2024-11-05.
    Sse(ToolsetServer),
    /// As a process of the server's machine. Only the operator's configuration may name one, so that it is never
    /// written or read with a stored document.
    #[serde(skip)]
    Stdio(ProcessSpec),
}

/// An MCP server on the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolsetServer {
    /// The endpoint.
    pub server_url: String,
    /// Headers of every request: templates. Literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Settings of one tool of a toolset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ToolSettings {
    /// The effect of a call; it overrides the server's hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<DeclaredEffect>,
}

impl ToolsetDefinition {
    /// Idle milliseconds after which the connection is closed.
    #[must_use]
    pub fn idle_close_ms(&self) -> u64 {
        self.idle_close_ms.unwrap_or(match self.connection {
            ToolsetConnection::Stdio(_) => crate::limits::TOOLSET_STDIO_IDLE_MS_DEFAULT,
            ToolsetConnection::StreamableHttp(_) | ToolsetConnection::Sse(_) => {
                crate::limits::TOOLSET_HTTP_IDLE_MS_DEFAULT
            }
        })
    }

    /// Whether a tool of the server exists for callers.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        let is_listed = |tools: &Vec<String>| tools.iter().any(|name| name == tool);
        self.tools.as_ref().is_none_or(is_listed)
    }
}

impl ToolsetConnection {
    /// The word under `transport`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::StreamableHttp(_) => "streamable_http",
            Self::Sse(_) => "sse",
            Self::Stdio(_) => "stdio",
        }
    }
}
