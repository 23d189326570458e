//! The real binary under crashes, deploys, hostile clients and the command line. Nothing here sleeps to wait: every
//! wait is for an event and has a limit.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a failing test printed says where it was"
)]

mod checker;
mod checker_tests;
mod echo;
mod evidence;
mod http;
mod peer;
mod random;
mod server;
mod sse;
mod tool_server;
mod world;

mod bodies;
mod budgets;
mod cancels;
mod cli;
mod cli_admin;
mod cli_alone;
mod command_line;
mod compaction;
mod crash;
mod credentials;
mod deploy;
mod effects;
mod files;
mod guards;
mod idempotency;
mod kills;
mod many_subscribers;
mod missing_provider_key;
mod model_probe;
mod overload;
mod parked;
mod plugins;
mod project;
mod provider_faults;
mod published_agents;
mod readiness;
mod replaying;
mod sockets;
mod structure;
mod tools;
mod toolsets;
mod traces;
mod unlisted_models;
mod workspaces;
