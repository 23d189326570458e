//! Queue and bus against real services, with outages and reconnects.
//!
//! `RUNLOOM_TEST_AMQP_URL` and `RUNLOOM_TEST_REDIS_URL` are their addresses; the default is the usual port on
//! localhost. Every test uses names of its own and removes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[allow(dead_code, reason = "delays and stalls are used by the fault suite")]
mod gate;
#[path = "../it/queue.rs"]
#[allow(
    dead_code,
    reason = "a broker is fair only among prefetched jobs, so it does not run every contract test"
)]
mod queue;
mod rabbitmq;
mod valkey;

use std::time::Duration;

/// Timeout of every wait, far above what any of them takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A unique name.
fn unique(what: &str) -> String {
    format!(
        "runloom-test:{what}:{}",
        runloom_ports::clock::Clock.new_id()
    )
}

fn setting(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// Host and port of an address.
fn authority(url: &str) -> &str {
    let rest = url.split("://").nth(1).expect("an address has a scheme");
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting until {what}"))
}

/// Polls a condition that has no notification.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    in_time(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
