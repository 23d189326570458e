//! The real binary under crashes, deploys, hostile clients and the command line. Nothing here sleeps to wait: every wait is for
//! an event and has a limit.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]

mod checker;
mod checker_tests;
mod http;
mod server;
mod sse;
mod world;

mod bodies;
mod cli;
mod cli_alone;
mod crash;
mod credentials;
mod crowds;
mod deploy;
mod kills;
mod parked;
mod repeats;
mod sockets;
mod tenants;
