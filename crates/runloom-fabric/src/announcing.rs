//! The queue of processes that share only a store: each has its own, and tells the others when it cannot keep up.

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::queue::{Admits, Job, Queue};

use crate::EmbeddedQueue;

/// Jobs wait in this process; the sweepers of the others are called to find them in the store.
pub struct AnnouncingQueue {
    inner: EmbeddedQueue,
    bus: Arc<dyn Bus>,
    worker: Worker,
}

/// Whether jobs are pulled in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    Here,
    Elsewhere,
}

impl std::fmt::Debug for AnnouncingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnnouncingQueue")
            .field("inner", &self.inner)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl AnnouncingQueue {
    /// For a process with a worker.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self {
            inner: EmbeddedQueue::new(),
            bus,
            worker: Worker::Here,
        }
    }

    /// For a process without a worker: jobs are announced and not kept, and `pull` never returns.
    #[must_use]
    pub fn forward_only(bus: Arc<dyn Bus>) -> Self {
        Self {
            worker: Worker::Elsewhere,
            ..Self::new(bus)
        }
    }
}

#[async_trait]
impl Queue for AnnouncingQueue {
    fn push(&self, job: Job) {
        // A job that is pulled here at once is nobody else's business; each announcement makes every process look into the store.
        let taken = self.worker == Worker::Here && self.inner.is_awaited();
        self.push_here(job);
        if !taken {
            self.bus.announce(Signal::Jobs);
        }
    }

    fn push_here(&self, job: Job) {
        if self.worker == Worker::Here {
            self.inner.push(job);
        }
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        self.inner.pull(admits).await
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }
}
