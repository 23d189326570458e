//! The tool host against peers that nobody here wrote: the official MCP and A2A packages.
//!
//! `RUNLOOM_INTEROP_TOOLS` names the folder with the prepared environments; `cargo xtask test --only interop-tools` makes
//! them and runs this target.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on panics"
)]

mod a2a;
mod mcp;
mod peer;
mod stdio;
