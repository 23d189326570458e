//! Tests of the tool host against scripted peers on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on panics"
)]

mod a2a;
mod absent;
mod cancels;
mod fetch;
mod mcp;
mod mcp_limits;
mod mcp_secrets;
mod mcp_sessions;
mod outbound;
mod peers;
mod plugins;
mod processes;
mod ssrf;
mod twins;
mod workspace;
