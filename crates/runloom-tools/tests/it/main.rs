//! Tests of the tool host against scripted peers on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod a2a;
mod a2a_origins;
mod cancels;
mod duplicate_names;
mod fetch;
mod mcp;
mod mcp_discovery;
mod mcp_limits;
mod mcp_secrets;
mod mcp_sessions;
mod outbound;
mod peers;
mod plugins;
mod processes;
mod ssrf;
mod toolset_transports;
mod toolsets;
mod unavailable_tools;
mod workspace;
