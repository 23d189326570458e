//! The queue through RabbitMQ.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_fabric::Role;
use runloom_ports::queue::Queue;

use crate::queue::{job, pull, pull_only};
use crate::until;
use world::{with_limited_world, with_world};

/// A queue that is connected, for the contract.
async fn with<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
    with_world(async |world| {
        let process = world.process(Role::Worker).await;
        test(process.queue.clone()).await;
    })
    .await;
}

crate::queue::contract!(with:
    jobs_of_a_workspace_come_in_order,
    a_run_can_come_back_after_it_was_pulled,
    pull_waits_for_a_push,
    a_dropped_pull_loses_no_job,
    many_pullers_get_every_job_once,
);

#[tokio::test]
async fn jobs_go_to_the_workers_of_other_processes() {
    with_world(async |world| {
        let api = world.process(Role::Publisher).await;
        let (a, b) = (
            world.process(Role::Worker).await,
            world.process(Role::Worker).await,
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
async fn what_a_worker_had_not_tried_goes_to_another_when_it_stops() {
    with_world(async |world| {
        let api = world.process(Role::Publisher).await;
        let first = world.process(Role::Worker).await;
        for run in 1..=3 {
            api.queue.push(job(1, run));
        }
        assert_eq!(pull(&*first.queue).await, job(1, 1), "pulled and tried");
        assert_eq!(pull_only(&*first.queue).await, job(1, 2), "only pulled");
        until("run 3 is fetched", async || first.queue.depth() == 1).await;
        first.stop().await;
        let second = world.process(Role::Worker).await;
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
async fn no_job_is_lost_when_connections_break() {
    with_world(async |world| {
        let api = world.process(Role::Publisher).await;
        let worker = world.process(Role::Worker).await;
        let mut missing: BTreeSet<i64> = (0..300).collect();
        for run in 0..300 {
            api.queue.push(job(1, run));
            if run % 100 == 50 {
                world.gate.cut();
            }
        }
        // Doubled jobs are allowed.
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
async fn a_process_with_a_worker_keeps_its_jobs_while_the_broker_is_away() {
    with_world(async |world| {
        world.gate.close().await;
        let worker = world.start(Role::Worker);
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        world.gate.turned_away().await;
        world.gate.open();
        worker.online().await;
        let other = world.process(Role::Publisher).await;
        other.queue.push(job(1, 2));
        assert_eq!(pull(&*worker.queue).await, job(1, 2));
    })
    .await;
}

#[tokio::test]
async fn a_process_without_a_worker_delivers_when_the_broker_is_back() {
    with_world(async |world| {
        world.gate.close().await;
        let api = world.start(Role::Publisher);
        for run in 1..=3 {
            api.queue.push(job(1, run));
        }
        world.gate.turned_away().await;
        world.gate.open();
        let worker = world.process(Role::Worker).await;
        for run in 1..=3 {
            assert_eq!(pull(&*worker.queue).await, job(1, run));
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_sweeper_found_stays_in_its_process() {
    with_world(async |world| {
        let (a, b) = (
            world.process(Role::Worker).await,
            world.process(Role::Publisher).await,
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
async fn a_job_that_kills_every_worker_becomes_a_dead_letter() {
    with_limited_world(2, async |world| {
        let worker = world.process(Role::Worker).await;
        worker.queue.push(job(1, 666));
        // As often as it is delivered, and once more.
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
async fn a_message_that_is_no_job_becomes_a_dead_letter() {
    with_world(async |world| {
        let worker = world.process(Role::Worker).await;
        world.publish(b"hello").await;
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        assert_eq!(world.dead_letter().await, b"hello");
    })
    .await;
}

#[tokio::test]
async fn a_queue_that_is_deleted_is_made_again() {
    with_world(async |world| {
        let api = world.process(Role::Publisher).await;
        let worker = world.process(Role::Worker).await;
        api.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1));
        world.delete(&world.name).await;
        api.queue.push(job(1, 2));
        assert_eq!(pull(&*worker.queue).await, job(1, 2));
    })
    .await;
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_named_with_its_remedy() {
    let log = world::Log::default();
    let _subscriber = log.listen();
    with_world(async |world| {
        world.declare_otherwise().await;
        let worker = world.start(Role::Worker);
        let remedy = format!("rabbitmqctl delete_queue {:?}", world.name);
        until("the remedy is logged", async || {
            log.text().contains(&remedy)
        })
        .await;
        assert!(log.text().contains("exists with other arguments"));
        worker.queue.push(job(1, 1));
        assert_eq!(pull(&*worker.queue).await, job(1, 1), "works without");
        world.delete(&world.name).await;
        worker.online().await;
        assert!(!log.text().contains("guest:guest"));
    })
    .await;
}

#[tokio::test]
async fn a_look_finds_the_broker_and_tells_why_it_is_not_let_in() {
    let url = world::url();
    let seen = runloom_fabric::look_at_amqp(&url).await.unwrap();
    assert!(seen.service.contains("virtual host /"), "{seen:?}");
    assert!(seen.problems.is_empty(), "{seen:?}");
    let (_, place) = url.rsplit_once('@').unwrap();
    let stranger = format!("amqp://nobody-here:secret@{place}");
    for url in [stranger.as_str(), "amqp://u:secret@127.0.0.1:1"] {
        let said = runloom_fabric::look_at_amqp(url).await.unwrap_err();
        let said = said.to_string();
        assert!(!said.is_empty() && !said.contains("secret"), "{said}");
    }
}
