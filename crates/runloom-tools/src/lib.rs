//! Tools that the server executes itself, behind [`runloom_ports::tools::ToolHost`].
//!
//! Not here: tools that clients execute, and the question whether a call may be repeated (both are the core's).
//!
//! Reading order: [`Host`] (the table of kinds), `kind` (what a kind must do), [`outbound`] (the one guarded way out), then one
//! folder per kind: `mcp`, `a2a`, `workspace`, `plugin`; `action` (what a definition does) with `http` and `code`; `content` bounds what a model reads, `names` makes names valid, `places` keeps workspaces
//! from taking what others need, `budget` the refs of a run from being too much together.
//!
//! Invariants: every connection goes through [`outbound::Outbound`]; every call ends; a peer's failure is text for the model.

mod a2a;
mod absent;
mod action;
mod budget;
mod charset;
mod code;
mod content;
mod escape;
mod fetch;
mod host;
mod http;
mod kind;
mod mcp;
mod names;
pub mod outbound;
mod places;
mod plugin;
mod workspace;

pub use code::{SandboxProgram, probe, sandbox};
pub use host::{Host, HostParts, ToolLimits};
pub use plugin::{ConfiguredPlugin, PluginSet, shipped_tools};
