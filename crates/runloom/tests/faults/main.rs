//! The fault suite: real processes and real services on this machine, everything that can die does so while runs go
//! on, and a checker then proves what was promised. Bugs are planted to show that it would find them.
//!
//! `cargo xtask test` runs the short form, `cargo xtask faults` the long one. Reading order: `script` (what runs do),
//! `provider` and `tools` (who plays along), `services` and `replicas` (what dies), `clients` and `load` (who watches),
//! `plan` (what happens to whom), `audit` and `judge` (what must hold), then the tests.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a suite of minutes says what it does"
)]

/// What other tests have, and what of it is not needed here.
macro_rules! shared {
    ($($name:ident = $path:literal;)*) => {$(
        #[path = $path]
        #[allow(dead_code, reason = "other tests use the rest")]
        mod $name;
    )*};
}

shared! {
    checker = "../e2e/checker.rs";
    evidence = "../e2e/evidence.rs";
    http = "../e2e/http.rs";
    random = "../e2e/random.rs";
    server = "../e2e/server.rs";
    sse = "../e2e/sse.rs";
    cluster = "../../../runloom-store/tests/postgres/cluster.rs";
    gate = "../../../runloom-fabric/tests/services/gate.rs";
}

mod audit;
mod clients;
mod judge;
mod load;
mod peers;
mod plan;
mod provider;
mod replicas;
mod report;
mod script;
mod services;
mod stage;
mod tools;

mod disk;
mod disk_of_postgres;
mod judge_tests;
mod planted;
mod poison;
mod suite;

/// The host and port in an address.
fn authority(url: &str) -> &str {
    let rest = url.split("://").nth(1).expect("an address has a scheme");
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// Waits, but not for ever.
async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(server::PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
