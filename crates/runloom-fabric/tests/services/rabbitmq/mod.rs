//! Queue through RabbitMQ.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_fabric::QueueRole;
use runloom_ports::queue::Queue;

use crate::queue::{job, pull, pull_only};
use crate::until;
use world::{with_limited_world, with_world};

/// Runs a contract test on a connected queue.
async fn with_queue<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
    with_world(async |world| {
        let process = world.process(QueueRole::Worker).await;
        test(process.queue.clone()).await;
    })
    .await;
}

crate::queue::contract!(with_queue:
    serves_jobs_of_a_workspace_in_order,
    accepts_a_run_again_after_it_was_pulled,
    pull_waits_for_a_push,
    dropped_pull_loses_no_job,
    many_pullers_get_every_job_once,
);

#[tokio::test]
async fn workers_of_other_processes_get_jobs() {
    with_world(async |world| {
        let api = world.process(QueueRole::Publisher).await;
        let (a, b) = (
            world.process(QueueRole::Worker).await,
            world.process(QueueRole::Worker).await,
        );
        for run in 0..200 {
            api.queue.push(job(run % 3, run));
        }
        let mut seen = BTreeSet::new();
        while seen.len() < 200 {
            let next = tokio::select! {
                next = pull(&*a.queue) => next,
                next = pull(&*b.queue) => next,
            };
            assert!(seen.insert(next.run.0), "{next:?} came twice");
        }
    })
    .await;
}

#[tokio::test]
async fn untried_jobs_go_to_another_worker_on_shutdown() {
    with_world(async |world| {
        let api = world.process(QueueRole::Publisher).await;
        let first = world.process(QueueRole::Worker).await;
        for run in 1..=3 {
            api.queue.push(job(1, run));
        }
        assert_eq!(pull(&*first.queue).await, job(1, 1), "pulled and tried");
        assert_eq!(pull_only(&*first.queue).await, job(1, 2), "only pulled");
        until("run 3 is fetched", async || first.queue.depth() == 1).await;
        first.stop().await;
        let second = world.process(QueueRole::Worker).await;
        api.queue.push(job(1, 4));
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(pull(&*second.queue).await.run.0);
        }
        assert_eq!(runs, [2, 3, 4]);
    })
    .await;
}

#[tokio::test]
async fn loses_no_job_when_connections_break() {
    with_world(async |world| {
        let api = world.process(QueueRole::Publisher).await;
        let worker = world.process(QueueRole::Worker).await;
        let mut missing: BTreeSet<i64> = (0..300).collect();
        for run in 0..300 {
            api.queue.push(job(1, run));
            if run % 100 == 50 {
                world.gate.cut();
            }
        }
        // Duplicate jobs are allowed.
        while !missing.is_empty() {
            let next = pull(&*worker.queue).await;
            if missing.remove(&next.run.0) && missing.len().is_multiple_of(70) {
                world.gate.cut();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn workers_serve_their_own_jobs_during_an_outage() {
    with_world(async |world| {
        world.gate.close().await;
        let worker = world.start(QueueRole::Worker);
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        world.gate.refused().await;
        world.gate.open();
        worker.online().await;
        let other = world.process(QueueRole::Publisher).await;
        other.queue.push(job(1, 2));
        assert_eq!(pull(&*worker.queue).await, job(1, 2));
    })
    .await;
}

#[tokio::test]
async fn publishers_deliver_after_an_outage() {
    with_world(async |world| {
        world.gate.close().await;
        let api = world.start(QueueRole::Publisher);
        for run in 1..=3 {
            api.queue.push(job(1, run));
        }
        world.gate.refused().await;
        world.gate.open();
        let worker = world.process(QueueRole::Worker).await;
        for run in 1..=3 {
            assert_eq!(pull(&*worker.queue).await, job(1, run));
        }
    })
    .await;
}

#[tokio::test]
async fn push_here_stays_in_its_process() {
    with_world(async |world| {
        let (a, b) = (
            world.process(QueueRole::Worker).await,
            world.process(QueueRole::Publisher).await,
        );
        b.queue.push_here(job(1, 1));
        a.queue.push_here(job(1, 2));
        assert_eq!(pull(&*a.queue).await, job(1, 2));
        b.queue.push(job(1, 3));
        assert_eq!(pull(&*a.queue).await, job(1, 3));
        assert_eq!(world.count(&world.name).await, 0);
    })
    .await;
}

#[tokio::test]
async fn job_beyond_the_delivery_limit_becomes_a_dead_letter() {
    with_limited_world(2, async |world| {
        let worker = world.process(QueueRole::Worker).await;
        worker.queue.push(job(1, 666));
        // One delivery more than the limit.
        for _ in 0..=world.delivery_limit {
            assert_eq!(pull_only(&*worker.queue).await, job(1, 666));
            world.gate.cut();
        }
        assert_eq!(world.dead_letter().await, br#"{"run":666,"workspace":1}"#);
        worker.online().await;
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
    })
    .await;
}

#[tokio::test]
async fn message_that_is_not_a_job_becomes_a_dead_letter() {
    with_world(async |world| {
        let worker = world.process(QueueRole::Worker).await;
        world.publish(b"hello").await;
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        assert_eq!(world.dead_letter().await, b"hello");
    })
    .await;
}

#[tokio::test]
async fn declares_a_deleted_queue_again() {
    with_world(async |world| {
        let api = world.process(QueueRole::Publisher).await;
        let worker = world.process(QueueRole::Worker).await;
        api.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        world.delete(&world.name).await;
        api.queue.push(job(1, 2));
        assert_eq!(pull(&*worker.queue).await, job(1, 2));
    })
    .await;
}

#[tokio::test]
async fn logs_the_remedy_for_a_queue_with_other_arguments() {
    let log = world::Log::default();
    let _subscriber = log.listen();
    with_world(async |world| {
        world.declare_with_other_arguments().await;
        let worker = world.start(QueueRole::Worker);
        let remedy = format!("rabbitmqctl delete_queue {:?}", world.name);
        until("the remedy is logged", async || {
            log.text().contains(&remedy)
        })
        .await;
        assert!(log.text().contains("exists with other arguments"));
        worker.queue.push(job(1, 1));
        assert_eq!(
            pull(&*worker.queue).await,
            job(1, 1),
            "works without the broker"
        );
        world.delete(&world.name).await;
        worker.online().await;
        assert!(!log.text().contains("guest:guest"));
    })
    .await;
}

#[tokio::test]
async fn health_check_reports_the_broker_or_the_failure() {
    let url = world::url();
    let health = runloom_fabric::check_amqp(&url).await.unwrap();
    assert!(health.service.contains("virtual host /"), "{health:?}");
    assert!(health.problems.is_empty(), "{health:?}");
    let (_, authority) = url.rsplit_once('@').unwrap();
    let unknown_user = format!("amqp://nobody-here:secret@{authority}");
    for url in [unknown_user.as_str(), "amqp://u:secret@127.0.0.1:1"] {
        let error = runloom_fabric::check_amqp(url).await.unwrap_err();
        let message = error.to_string();
        assert!(
            !message.is_empty() && !message.contains("secret"),
            "{message}"
        );
    }
}
