//! Workspace tools: what `{"kind": "mantyx", "id": …}` leads to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plugin::ProcessSpec;
use crate::tools::{Object, SessionScope};

/// A tool of a workspace, which the server executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// The model-facing name, `^[a-zA-Z0-9_]{1,64}$`. Absent in a request means the slug with `_` for `-`.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub name: String,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments, with an object at its root. Arguments are checked before the call.
    #[serde(default)]
    pub parameters: Object,
    /// The JSON Schema of the output, with an object at its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Object>,
    /// What a repeated call does; absent means that the type of the tool decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<DeclaredEffect>,
    /// The time limit of one call in milliseconds; absent means 30,000, for agents 300,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How the tool is executed.
    #[serde(flatten)]
    pub action: ToolAction,
}

/// What a repeated call of a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeclaredEffect {
    /// A call changes nothing: it may be repeated, and run at the same time as others.
    Read,
    /// Repeated calls have the effect of one: a call may be repeated.
    Idempotent,
    /// Every call has an effect: a call is never repeated.
    Once,
}

/// How a tool is executed, by `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolAction {
    /// One HTTP request.
    Http(HttpCall),
    /// JavaScript in a sandbox.
    Code(CodeCall),
    /// A tool of an installed plugin under a name of the workspace's own.
    Plugin(PluginCall),
    /// A tool of an MCP server.
    Mcp(McpCall),
    /// A remote agent.
    A2a(ExternalAgent),
    /// A tool of a process that speaks MCP. Only a plugin of the operator's configuration has one.
    #[serde(skip)]
    Process(ProcessCall),
    /// A tool that comes with the server.
    #[serde(skip)]
    Shipped(ShippedTool),
}

/// One HTTP request. Templates contain arguments as `{{city}}` or `{{customer.id}}` and secrets as `{{secret:NAME}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HttpCall {
    /// The method.
    #[serde(default)]
    pub method: HttpMethod,
    /// The URL, a template. Arguments stand only after the host and become one path segment or query value each.
    pub url: String,
    /// Headers of the request: templates. Literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters: templates. A parameter whose only argument is absent is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// The body. A string is a text template; anything else is JSON whose strings are templates, where a string that
    /// is nothing but `{{argument}}` becomes the argument's JSON value. Absent: all arguments as a JSON object for
    /// methods that carry a body, nothing for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Which part of the response the model gets.
    #[serde(default, skip_serializing_if = "ResponseMapping::is_empty")]
    pub response: ResponseMapping,
    /// The bytes of the response that are read; the rest is cut with a note.
    #[serde(default = "default_response_bytes")]
    pub max_response_bytes: u64,
}

fn default_response_bytes() -> u64 {
    crate::limits::TOOL_RESPONSE_BYTES_DEFAULT
}

/// The method of an HTTP request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Reads.
    #[default]
    Get,
    /// Reads the headers alone.
    Head,
    /// Acts.
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl HttpMethod {
    /// Every method.
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether a request with this method has a body when the definition names none.
    #[must_use]
    pub fn carries_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Which part of an HTTP response the model gets; all of it when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ResponseMapping {
    /// A JSON Pointer (RFC 6901) into a JSON response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// A text with `{{path.into.the.response}}`, applied to what the pointer selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

impl ResponseMapping {
    /// True when the whole answer is given on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// JavaScript in a sandbox without file system and environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CodeCall {
    /// A module that exports `default function (args, ctx)`, or a function body. Its result is the output of the tool.
    pub source: String,
    /// The memory limit in megabytes.
    #[serde(default = "default_memory_mb")]
    pub memory_mb: u32,
    /// The bytes of the result; the rest is cut with a note.
    #[serde(default = "default_response_bytes")]
    pub max_output_bytes: u64,
    /// Whether the code can call `fetch`, under the server's outbound policy.
    #[serde(default)]
    pub allow_fetch: bool,
    /// The names of the secrets in `ctx.secrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

fn default_memory_mb() -> u32 {
    crate::limits::CODE_MEMORY_MB_DEFAULT
}

/// A tool of an installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginCall {
    /// The name of the tool: `@plugin/tool`, or `tool` for a global plugin.
    pub plugin: String,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpCall {
    /// The Streamable HTTP endpoint.
    pub url: String,
    /// Headers of every request: templates. Literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The name of the tool at the MCP server; absent means `name` of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The runs that share a session with the server.
    #[serde(default, skip_serializing_if = "SessionScope::is_run")]
    pub session: SessionScope,
}

/// A remote agent that speaks A2A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalAgent {
    /// The URL of the agent card or of the JSON-RPC endpoint.
    pub agent_card_url: String,
    /// Headers of every request: templates. Literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// A tool of a process that speaks MCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCall {
    /// What is started.
    pub process: ProcessSpec,
    /// The tool's name at the process.
    pub tool: String,
}

/// The tools that come with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShippedTool {
    /// `@web/fetch`.
    WebFetch,
    /// `@time/now`.
    TimeNow,
    /// `@memory/recall`.
    MemoryRecall,
    /// `@memory/remember`.
    MemoryRemember,
    /// `@memory/traverse`.
    MemoryTraverse,
}

impl ToolDefinition {
    /// What a repetition would do: as declared, else what the action shows. A plugin's own declaration is the
    /// plugin's business.
    #[must_use]
    pub fn effect(&self) -> DeclaredEffect {
        self.effect.unwrap_or(match &self.action {
            ToolAction::Http(call) => match call.method {
                HttpMethod::Get | HttpMethod::Head => DeclaredEffect::Read,
                HttpMethod::Put | HttpMethod::Delete => DeclaredEffect::Idempotent,
                HttpMethod::Post | HttpMethod::Patch => DeclaredEffect::Once,
            },
            ToolAction::Code(code) if !code.allow_fetch => DeclaredEffect::Read,
            ToolAction::Code(_)
            | ToolAction::Plugin(_)
            | ToolAction::Mcp(_)
            | ToolAction::A2a(_)
            | ToolAction::Process(_)
            | ToolAction::Shipped(_) => DeclaredEffect::Once,
        })
    }

    /// Milliseconds that one call may take: as declared, else what calls of this kind usually need. A plugin's tool
    /// brings its own.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms.unwrap_or(match &self.action {
            // Agents think, and call tools of their own.
            ToolAction::A2a(_) => crate::limits::AGENT_TIMEOUT_MS_DEFAULT,
            _ => crate::limits::TOOL_TIMEOUT_MS_DEFAULT,
        })
    }
}
