//! Bus and rate windows through Valkey or Redis.

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_fabric::{ValkeyBus, ValkeyOptions, ValkeyWindows};
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::store::RunNo;
use runloom_ports::tasks::Tasks;
use runloom_ports::windows::SharedWindows;

use crate::gate::Gate;
use crate::{authority, in_time, setting, unique, until};

fn url() -> String {
    setting("RUNLOOM_TEST_REDIS_URL", "redis://127.0.0.1:6379")
}

/// Processes that share a prefix. Nothing durable is stored, so nothing needs to be removed.
struct World {
    prefix: String,
    tasks: Tasks,
}

impl World {
    async fn new() -> Self {
        let client = redis::Client::open(url()).unwrap();
        if let Err(error) = client.get_multiplexed_async_connection().await {
            panic!(
                "Valkey or Redis is not reachable at {} ({error}): start it, or set RUNLOOM_TEST_REDIS_URL",
                authority(&url())
            );
        }
        Self {
            prefix: unique("bus"),
            tasks: Tasks::default(),
        }
    }

    fn start(&self, url: &str) -> Arc<ValkeyBus> {
        let options = ValkeyOptions {
            prefix: self.prefix.clone(),
        };
        ValkeyBus::start(url, &options, &self.tasks).unwrap()
    }

    fn windows(&self, url: &str) -> Arc<ValkeyWindows> {
        let options = ValkeyOptions {
            prefix: self.prefix.clone(),
        };
        ValkeyWindows::start(url, &options, &self.tasks).unwrap()
    }

    /// A bus that is subscribed.
    async fn bus(&self) -> Arc<ValkeyBus> {
        let bus = self.start(&url());
        assert_eq!(next(&bus).await, Signal::Lost, "sent after subscribing");
        bus
    }

    /// A bus that is subscribed through a proxy.
    async fn gated(&self) -> (Arc<ValkeyBus>, Gate) {
        let gate = Gate::to(authority(&url())).await;
        let bus = self.start(&gate.url(&url()));
        assert_eq!(next(&bus).await, Signal::Lost, "sent after subscribing");
        (bus, gate)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.shutdown.interrupt();
    }
}

async fn next(bus: &Arc<ValkeyBus>) -> Signal {
    in_time("something is announced", bus.next()).await
}

fn events(run: i64, last_seq: u64) -> Signal {
    Signal::Events {
        run: RunNo(run),
        last_seq,
    }
}

#[tokio::test]
async fn announcements_reach_other_processes_only() {
    let world = World::new().await;
    let (a, b, c) = (world.bus().await, world.bus().await, world.bus().await);
    for signal in [Signal::Mail(RunNo(1)), events(2, 3)] {
        a.announce(signal);
        assert_eq!(next(&b).await, signal);
        assert_eq!(next(&c).await, signal);
    }
    b.announce(Signal::Jobs);
    assert_eq!(next(&a).await, Signal::Jobs, "the first that a receives");
    assert_eq!(next(&c).await, Signal::Jobs);
    assert!(a.is_shared());
}

#[tokio::test]
async fn receives_the_last_of_many_events_of_a_run() {
    let world = World::new().await;
    let (a, b) = (world.bus().await, world.bus().await);
    for last_seq in 1..=10_000 {
        a.announce(events(1, last_seq));
    }
    let mut received = 0;
    while received != 10_000 {
        let Signal::Events { run, last_seq } = next(&b).await else {
            panic!("nothing else was announced");
        };
        assert_eq!(run, RunNo(1));
        assert!(last_seq > received, "{last_seq} after {received}");
        received = last_seq;
    }
}

#[tokio::test]
async fn receives_every_one_of_many_runs() {
    let world = World::new().await;
    let (a, b) = (world.bus().await, world.bus().await);
    let mut missing: BTreeSet<i64> = (0..5_000).collect();
    for run in &missing {
        a.announce(Signal::Mail(RunNo(*run)));
    }
    while !missing.is_empty() {
        let Signal::Mail(run) = next(&b).await else {
            panic!("nothing else was announced");
        };
        assert!(missing.remove(&run.0), "{run:?} came twice");
    }
}

#[tokio::test]
async fn ignores_other_prefixes_and_foreign_messages() {
    let (world, other) = (World::new().await, World::new().await);
    let (a, b, stranger) = (world.bus().await, world.bus().await, other.bus().await);
    stranger.announce(Signal::Mail(RunNo(1)));
    let mut connection = redis::Client::open(url())
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let listeners: u32 = redis::cmd("PUBLISH")
        .arg(format!("{}announcements", world.prefix))
        .arg("hello")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(listeners, 2);
    a.announce(Signal::Mail(RunNo(2)));
    assert_eq!(next(&b).await, Signal::Mail(RunNo(2)));
}

#[tokio::test]
async fn reconnecting_reports_lost_announcements() {
    let world = World::new().await;
    let (a, (b, gate)) = (world.bus().await, world.gated().await);
    for run in 0..3 {
        gate.cut();
        assert_eq!(next(&b).await, Signal::Lost);
        a.announce(Signal::Mail(RunNo(run)));
        assert_eq!(next(&b).await, Signal::Mail(RunNo(run)));
    }
}

#[tokio::test]
async fn unsent_announcements_are_reported_as_lost() {
    let world = World::new().await;
    let ((a, gate), b) = (world.gated().await, world.bus().await);
    // Waits until the publisher is connected as well.
    a.announce(Signal::Jobs);
    assert_eq!(next(&b).await, Signal::Jobs);
    gate.close().await;
    a.announce(Signal::Mail(RunNo(7)));
    gate.refused().await;
    gate.open();
    assert_eq!(next(&b).await, Signal::Lost);
    a.announce(Signal::Mail(RunNo(8)));
    assert_eq!(next(&b).await, Signal::Mail(RunNo(8)));
}

#[tokio::test]
async fn connects_to_a_service_that_starts_later() {
    let world = World::new().await;
    let b = world.bus().await;
    let gate = Gate::to(authority(&url())).await;
    gate.close().await;
    let a = world.start(&gate.url(&url()));
    a.announce(Signal::Mail(RunNo(1)));
    gate.refused().await;
    gate.open();
    assert_eq!(next(&a).await, Signal::Lost);
    assert_eq!(next(&b).await, Signal::Mail(RunNo(1)));
    b.announce(Signal::Jobs);
    assert_eq!(next(&a).await, Signal::Jobs);
}

#[tokio::test]
async fn dropped_wait_loses_no_announcement() {
    let world = World::new().await;
    let (a, b) = (world.bus().await, world.bus().await);
    for run in 0..50 {
        let abandoned = b.next();
        a.announce(Signal::Mail(RunNo(run)));
        drop(abandoned);
        assert_eq!(next(&b).await, Signal::Mail(RunNo(run)));
    }
}

#[tokio::test]
async fn processes_share_one_window() {
    let world = World::new().await;
    let (a, b) = (world.windows(&url()), world.windows(&url()));
    // The first responses, in a window of their own, show that both are connected.
    for windows in [&a, &b] {
        until("a window answers", async || {
            windows.admit("other", 100).await.is_some()
        })
        .await;
    }
    for (windows, expected) in [
        (&a, (true, 1)),
        (&b, (true, 2)),
        (&a, (true, 3)),
        (&b, (false, 3)),
    ] {
        let counted = windows.admit("key:run_starts", 3).await.unwrap();
        assert_eq!((counted.admitted, counted.sum), expected);
        assert!((1..=61).contains(&counted.reset_seconds), "{counted:?}");
    }
    let larger = a.admit("key:run_starts", 4).await.unwrap();
    assert!(larger.admitted, "a refused request is not counted");
}

#[tokio::test]
async fn unreachable_window_returns_none_until_reconnected() {
    let world = World::new().await;
    let gate = Gate::to(authority(&url())).await;
    let windows = world.windows(&gate.url(&url()));
    let answers = async || windows.admit("key:writes", 1_000).await.is_some();
    until("it answers", answers).await;
    gate.close().await;
    until("it does not answer", async || !answers().await).await;
    gate.open();
    until("it answers again", answers).await;
}

#[tokio::test]
async fn health_check_reports_the_service_or_the_failure() {
    World::new().await;
    let health = runloom_fabric::check_redis(&url()).await.unwrap();
    assert!(
        health.service.starts_with("Valkey ") || health.service.starts_with("Redis "),
        "{health:?}"
    );
    assert!(health.problems.is_empty(), "{health:?}");
    let unreachable = runloom_fabric::check_redis("redis://:secret@127.0.0.1:1").await;
    let message = unreachable.unwrap_err().to_string();
    assert!(
        !message.is_empty() && !message.contains("secret"),
        "{message}"
    );
}
