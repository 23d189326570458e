//! Tools that the server executes itself, behind [`runloom_ports::tools::ToolHost`].
//!
//! Tools that clients execute, and the decision whether a call may be repeated, are outside this crate.
//!
//! Reading order: [`Host`] (the table of kinds), `tool_kind` (the interface of a kind), [`outbound`] (the guarded HTTP
//! client), then one folder per kind: `mcp`, `a2a`, `workspace`, `plugin`, `toolset`, `project_cli`.
//! `definition` executes tool definitions, with `http`, `code` and `shipped`; `call_secrets` holds the secrets of one
//! call. `content` limits the size of results, `names` makes tool names valid, `workspace_limits` limits concurrency
//! per workspace, `listing_budget` limits the tools that MCP servers list for one run.
//!
//! Invariants: every connection goes through [`outbound::Outbound`]; every call ends; a failure of a peer is a message
//! for the model.

mod a2a;
mod call_secrets;
mod charset;
mod code;
mod content;
mod definition;
mod escape;
mod fetch;
mod host;
mod http;
mod listing_budget;
mod mcp;
mod names;
pub mod outbound;
mod plugin;
mod project_cli;
mod shipped;
mod tool_kind;
mod tool_limits;
mod toolset;
mod unavailable_tool;
mod workspace;
mod workspace_limits;

pub use code::{SandboxProgram, probe, sandbox};
pub use host::{Host, HostParts};
pub use plugin::{ConfiguredPlugin, PluginSet, shipped_tools};
pub use project_cli::{ProjectParts, ProjectProgram};
pub use tool_limits::ToolLimits;
