//! Queue for processes that share only a store: each has its own in-memory queue and announces jobs that it cannot pull
//! at once.

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::queue::{Admits, Job, Queue};

use crate::EmbeddedQueue;

/// A queue that keeps jobs in this process and announces [`Signal::Jobs`] to the sweepers of other processes.
pub struct AnnouncingQueue {
    inner: EmbeddedQueue,
    bus: Arc<dyn Bus>,
    worker: WorkerLocation,
}

/// Where jobs are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerLocation {
    ThisProcess,
    OtherProcesses,
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
    /// Queue of a process with a worker.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self {
            inner: EmbeddedQueue::new(),
            bus,
            worker: WorkerLocation::ThisProcess,
        }
    }

    /// Queue of a process without a worker: jobs are announced and not kept, and `pull` never returns.
    #[must_use]
    pub fn forward_only(bus: Arc<dyn Bus>) -> Self {
        Self {
            worker: WorkerLocation::OtherProcesses,
            ..Self::new(bus)
        }
    }
}

#[async_trait]
impl Queue for AnnouncingQueue {
    fn push(&self, job: Job) {
        // A job that is pulled here at once needs no announcement: each one makes every process query the store.
        let is_pulled_here =
            self.worker == WorkerLocation::ThisProcess && self.inner.has_idle_puller();
        self.push_here(job);
        if !is_pulled_here {
            self.bus.announce(Signal::Jobs);
        }
    }

    fn push_here(&self, job: Job) {
        if self.worker == WorkerLocation::ThisProcess {
            self.inner.push(job);
        }
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        self.inner.pull(admits).await
    }

    fn done(&self, job: Job) {
        self.inner.done(job);
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }
}
