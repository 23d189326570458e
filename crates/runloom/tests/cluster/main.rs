//! Several processes of the real binary on one PostgreSQL database, as an operator runs them: what they promise
//! together. Simple and readable; what happens under load and faults is the fault suite's.
//!
//! `RUNLOOM_TEST_POSTGRES`, `RUNLOOM_TEST_AMQP_URL` and `RUNLOOM_TEST_REDIS_URL` say where the services are; without
//! them, on this machine with their usual ports. `psql` makes the databases, `pg_dump` and `pg_restore` are tried.
//! Nothing here sleeps to wait.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(
    clippy::print_stderr,
    reason = "what a failing test printed says where it was"
)]
#![allow(
    dead_code,
    reason = "the parts that are shared with the other suites have more than is used here"
)]

#[path = "../e2e/http.rs"]
mod http;
#[path = "../e2e/server.rs"]
mod server;
#[path = "../e2e/sse.rs"]
mod sse;

mod backlog;
mod metrics_page;
mod processes;
mod registry;
mod restarts;
mod restores;
