//! The queue that tells other processes when it cannot keep up.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runloom_fabric::AnnouncingQueue;
use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::queue::Queue;

use crate::queue::{anyone, job, pull};

async fn with<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
    test(Arc::new(AnnouncingQueue::new(Arc::new(NoBus)))).await;
}

crate::queue::contract!(with);

/// Remembers what was announced.
#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Recorder {
    fn heard(&self) -> Vec<Signal> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl Bus for Recorder {
    fn announce(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }

    async fn next(&self) -> Signal {
        std::future::pending().await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[tokio::test]
async fn a_job_that_nobody_waits_for_is_announced() {
    let bus = Arc::new(Recorder::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    queue.push(job(1, 1));
    assert_eq!(bus.heard(), [Signal::Jobs]);
    assert_eq!(pull(&queue).await, job(1, 1));
}

#[tokio::test]
async fn a_job_that_is_pulled_at_once_is_not_announced_but_the_next_one_is() {
    let bus = Arc::new(Recorder::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    let mut puller = queue.pull(&anyone);
    assert!(is_pending(&mut puller).await);
    queue.push(job(1, 1));
    assert_eq!(bus.heard(), []);
    queue.push(job(1, 2));
    assert_eq!(bus.heard(), [Signal::Jobs]);
    drop(puller);
    queue.push(job(1, 3));
    assert_eq!(
        bus.heard(),
        [Signal::Jobs],
        "a dropped puller waits no more"
    );
}

#[tokio::test]
async fn what_a_sweeper_found_is_not_announced() {
    let bus = Arc::new(Recorder::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    queue.push_here(job(1, 1));
    assert_eq!(bus.heard(), []);
    assert_eq!(pull(&queue).await, job(1, 1));
}

#[tokio::test]
async fn without_a_worker_jobs_are_announced_and_not_kept() {
    let bus = Arc::new(Recorder::default());
    let queue = AnnouncingQueue::forward_only(Arc::clone(&bus) as _);
    assert!(is_pending(&mut queue.pull(&anyone)).await);
    queue.push(job(1, 1));
    queue.push_here(job(1, 2));
    assert_eq!(bus.heard(), [Signal::Jobs]);
    assert_eq!(queue.depth(), 0);
    assert!(is_pending(&mut queue.pull(&anyone)).await);
}
