//! The Rust SDK for agent-runs servers.
