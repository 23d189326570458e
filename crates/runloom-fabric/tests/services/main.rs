//! The same contracts against real services, and what happens when they go away and come back.
//!
//! `RUNLOOM_TEST_AMQP_URL` and `RUNLOOM_TEST_REDIS_URL` say where they are; without them, on this machine with their usual ports.
//! Every test has names of its own there and removes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by failing what it expected"
)]

#[allow(dead_code, reason = "slow and stopped ways are for the fault suite")]
mod gate;
#[path = "../it/queue.rs"]
#[allow(
    dead_code,
    reason = "a broker is fair only among what was fetched, so not every behaviour is asked of it"
)]
mod queue;
mod rabbitmq;
mod valkey;

use std::time::Duration;

/// Far above what anything here takes.
const AT_MOST: Duration = Duration::from_secs(60);

/// A name that no other test has.
fn unique(what: &str) -> String {
    format!(
        "runloom-test:{what}:{}",
        runloom_ports::clock::Clock.new_id()
    )
}

fn setting(variable: &str, usual: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usual.to_owned())
}

/// The host and port in an address.
fn authority(url: &str) -> &str {
    let rest = url.split("://").nth(1).expect("an address has a scheme");
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_MOST, future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// Asks again and again, because nobody tells.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    in_time(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
