//! Timeouts and concurrency limits that the tool kinds share.

use std::time::Duration;

/// Timeouts and concurrency limits of tools.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// Timeout of connecting to one MCP server and listing its tools.
    pub resolve_timeout: Duration,
    /// Timeout of a call without a response; progress notifications restart it.
    pub idle_timeout: Duration,
    /// Total timeout of a call, with or without progress.
    pub call_timeout: Duration,
    /// How long the tool list of an MCP server is cached.
    pub listing_ttl: Duration,
    /// How long an unused MCP connection is kept.
    pub connection_idle: Duration,
    /// Maximum MCP connections. Callers wait for a free one within `resolve_timeout`.
    pub max_connections: usize,
    /// Maximum MCP connections of one workspace.
    pub max_workspace_connections: usize,
    /// How long an unused MCP process is kept.
    pub process_idle: Duration,
    /// Maximum MCP processes.
    pub max_processes: usize,
    /// Maximum concurrent calls to one MCP process; further calls wait.
    pub process_concurrency: u32,
    /// How long an MCP process may stay silent after an unanswered call before it is restarted.
    pub process_answer: Duration,
    /// Maximum code tools at once, each in a process of its own; further calls wait.
    pub max_sandboxes: usize,
    /// Maximum code tools of one workspace at once.
    pub max_workspace_sandboxes: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            resolve_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(600),
            listing_ttl: Duration::from_secs(30),
            connection_idle: Duration::from_secs(60),
            max_connections: 1024,
            max_workspace_connections: 256,
            process_idle: Duration::from_secs(600),
            max_processes: 64,
            process_concurrency: 16,
            process_answer: Duration::from_secs(5),
            max_sandboxes: 32,
            max_workspace_sandboxes: 8,
        }
    }
}
