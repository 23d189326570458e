//! Workspace tools: what `{"kind": "mantyx", "id": …}` leads to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plugin::ProcessSpec;
use crate::tools::{Object, SessionScope};

/// A tool that the server executes for a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Model-facing name, `^[a-zA-Z0-9_]{1,64}$`.
    pub name: String,
    /// What the model is told about it.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments, object root; arguments are checked against it before anything is called.
    #[serde(default)]
    pub parameters: Object,
    /// JSON Schema of the output, object root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Object>,
    /// What a repetition would do; `None` = what [`Self::effect`] derives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<DeclaredEffect>,
    /// Milliseconds that one call may take; `None` = what [`Self::timeout_ms`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How it is carried out.
    #[serde(flatten)]
    pub action: ToolAction,
}

/// What happens in the world when a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredEffect {
    /// Nothing; may be repeated, and run beside others.
    Read,
    /// The same as when made once; may be repeated.
    Idempotent,
    /// Something each time; never repeated.
    Once,
}

/// How a tool is carried out. The word stands under `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// One HTTP request. Templates take arguments as `{{city}}` or `{{customer.id}}` and secrets as `{{secret:NAME}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpCall {
    /// How.
    #[serde(default)]
    pub method: HttpMethod,
    /// Where: a template. Arguments stand only behind the host, percent-encoded as one path segment or query value each.
    pub url: String,
    /// Sent with the request: templates; literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Appended to the URL's query: templates. One whose only argument is absent is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// The body. A string is a text template; anything else is JSON whose strings are templates, where a string that is nothing
    /// but `{{argument}}` becomes the argument's JSON value. Absent: all arguments as a JSON object for methods that carry a
    /// body, nothing for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What of the answer the model reads.
    #[serde(default, skip_serializing_if = "ResponseMapping::is_empty")]
    pub response: ResponseMapping,
    /// Bytes of the answer that are read; the rest is cut with a note.
    #[serde(default = "default_response_bytes")]
    pub max_response_bytes: u64,
}

fn default_response_bytes() -> u64 {
    crate::limits::TOOL_RESPONSE_BYTES_DEFAULT
}

/// Methods of an [`HttpCall`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What of an HTTP answer the model reads; nothing set = all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResponseMapping {
    /// JSON Pointer (RFC 6901) into a JSON answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// A text with `{{path.into.the.answer}}`; applied to what the pointer selects.
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

/// JavaScript in a sandbox: a process of its own, without file system and environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeCall {
    /// A module that exports `default function (args, ctx)`, or a body that returns; its result is what the model reads.
    pub source: String,
    /// Megabytes of memory.
    #[serde(default = "default_memory_mb")]
    pub memory_mb: u32,
    /// Bytes of the result; the rest is cut with a note.
    #[serde(default = "default_response_bytes")]
    pub max_output_bytes: u64,
    /// Whether it may call `fetch`, through the server's guarded client.
    #[serde(default)]
    pub allow_fetch: bool,
    /// Names of the secrets that `ctx.secrets` holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

fn default_memory_mb() -> u32 {
    crate::limits::CODE_MEMORY_MB_DEFAULT
}

/// A tool of an installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginCall {
    /// `@plugin/tool`, or the bare name of a global plugin's tool.
    pub plugin: String,
}

/// A tool of an MCP server that the server reaches over Streamable HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCall {
    /// The endpoint.
    pub url: String,
    /// Sent with each request: templates; literal values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its name at the MCP server; `None` = the definition's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The runs that share a session with the server.
    #[serde(default, skip_serializing_if = "SessionScope::is_run")]
    pub session: SessionScope,
}

/// A remote agent that speaks A2A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAgent {
    /// Card URL or JSON-RPC root.
    pub agent_card_url: String,
    /// Sent with each request: templates; literal values are secrets.
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
    /// What a repetition would do: as declared, else what the action shows. A plugin's own declaration is the plugin's business.
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

    /// Milliseconds that one call may take: as declared, else what calls of this kind usually need. A plugin's tool brings its own.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms.unwrap_or(match &self.action {
            // Agents think, and call tools of their own.
            ToolAction::A2a(_) => crate::limits::AGENT_TIMEOUT_MS_DEFAULT,
            _ => crate::limits::TOOL_TIMEOUT_MS_DEFAULT,
        })
    }
}
