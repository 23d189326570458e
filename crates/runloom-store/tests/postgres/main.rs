//! The store's contract on PostgreSQL, and what only a database that several processes share can get wrong.
//!
//! Needs a server: `RUNLOOM_TEST_POSTGRES` names one (`postgres://…`, a role that may create databases), without it
//! `postgres://postgres@127.0.0.1:5432/postgres` is used. Every test has a database of its own, made and dropped on
//! the fly.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says by failing what it expected"
)]

#[path = "../it/contract/mod.rs"]
mod contract;
#[path = "../it/crash.rs"]
mod crash;
#[path = "../it/fixture.rs"]
mod fixture;

mod alone;
mod cluster;
mod database;
mod notices;
mod open;
mod outages;
mod proxy;
mod races;

/// Where the tests of crashes put their database.
async fn ground() -> (String, database::Database) {
    let database = database::Database::create().await;
    (database.url(), database)
}

mod postgres {
    use crate::fixture::Fixture;

    async fn make() -> Fixture {
        crate::database::fixture().await
    }

    crate::contract::suite!(make);
}
