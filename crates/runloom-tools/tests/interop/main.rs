//! The tool host against the official MCP and A2A packages.
//!
//! `RUNLOOM_INTEROP_TOOLS` is the folder with the prepared environments; `cargo xtask test --only interop-tools`
//! prepares them and runs this target.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod a2a;
mod mcp;
mod peer;
mod stdio;
mod toolsets;
