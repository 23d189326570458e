//! The real binary under crashes, deploys, hostile clients and the command line. Nothing here sleeps to wait: every wait is for
//! an event and has a limit.

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
mod cli;
mod cli_admin;
mod cli_alone;
mod crash;
mod credentials;
mod crowds;
mod deploy;
mod desk;
mod effects;
mod files;
mod guards;
mod hosted;
mod kills;
mod lacking;
mod model_trial;
mod overload;
mod parked;
mod plugins;
mod provider_faults;
mod receipts;
mod repeats;
mod replaying;
mod sockets;
mod spending;
mod structure;
mod tenants;
mod tools;
mod traces;
