//! Contract and announcements of the announcing queue.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runloom_fabric::AnnouncingQueue;
use runloom_ports::bus::{Bus, NoBus, Signal};
use runloom_ports::queue::Queue;

use crate::queue::{anyone, job, pull};

async fn with_queue<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
    test(Arc::new(AnnouncingQueue::new(Arc::new(NoBus)))).await;
}

crate::queue::contract!(with_queue);

/// A bus that records announcements.
#[derive(Default)]
struct RecordingBus(Mutex<Vec<Signal>>);

impl RecordingBus {
    fn take(&self) -> Vec<Signal> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl Bus for RecordingBus {
    fn announce(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }

    async fn next(&self) -> Signal {
        std::future::pending().await
    }

    fn is_up(&self) -> bool {
        true
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
async fn announces_jobs_without_an_idle_puller() {
    let bus = Arc::new(RecordingBus::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    queue.push(job(1, 1));
    assert_eq!(bus.take(), [Signal::Jobs]);
    assert_eq!(pull(&queue).await, job(1, 1));
}

#[tokio::test]
async fn announces_only_jobs_beyond_the_idle_pullers() {
    let bus = Arc::new(RecordingBus::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    let mut puller = queue.pull(&anyone);
    assert!(is_pending(&mut puller).await);
    queue.push(job(1, 1));
    assert_eq!(bus.take(), []);
    queue.push(job(1, 2));
    assert_eq!(bus.take(), [Signal::Jobs]);
    drop(puller);
    queue.push(job(1, 3));
    assert_eq!(
        bus.take(),
        [Signal::Jobs],
        "a dropped puller does not count"
    );
}

#[tokio::test]
async fn push_here_announces_nothing() {
    let bus = Arc::new(RecordingBus::default());
    let queue = AnnouncingQueue::new(Arc::clone(&bus) as _);
    queue.push_here(job(1, 1));
    assert_eq!(bus.take(), []);
    assert_eq!(pull(&queue).await, job(1, 1));
}

#[tokio::test]
async fn forward_only_announces_and_keeps_nothing() {
    let bus = Arc::new(RecordingBus::default());
    let queue = AnnouncingQueue::forward_only(Arc::clone(&bus) as _);
    assert!(is_pending(&mut queue.pull(&anyone)).await);
    queue.push(job(1, 1));
    queue.push_here(job(1, 2));
    assert_eq!(bus.take(), [Signal::Jobs]);
    assert_eq!(queue.depth(), 0);
    assert!(is_pending(&mut queue.pull(&anyone)).await);
}
