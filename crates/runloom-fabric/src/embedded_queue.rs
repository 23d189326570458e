//! In-memory queue of one process, served round-robin by workspace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use runloom_ports::queue::{Admits, Job, Queue};
use runloom_ports::store::{RunNo, WorkspaceNo};
use tokio::sync::Notify;

/// A queue for the workers of this process.
#[derive(Debug, Default)]
pub struct EmbeddedQueue {
    waiting: Mutex<WaitingJobs>,
    // Holds a permit whenever jobs may wait that no puller has been woken for.
    filled: Notify,
    pullers: AtomicUsize,
}

impl EmbeddedQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether more pullers wait than jobs, so that the next job is pulled at once.
    pub(crate) fn has_idle_puller(&self) -> bool {
        self.pullers.load(Ordering::Relaxed) > self.depth()
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    fn push(&self, job: Job) {
        if self.waiting.lock().push(job) {
            self.filled.notify_one();
        }
    }

    fn push_here(&self, job: Job) {
        self.push(job);
    }

    /// Pulled jobs are not kept.
    fn done(&self, _job: Job) {}

    /// There is no broker.
    fn is_up(&self) -> bool {
        true
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        let _puller = PullerCount::enter(&self.pullers);
        loop {
            // There is no await between taking a job and returning it, so a dropped future has taken nothing. If the
            // future is dropped while it holds a wake-up, the wake-up goes to another puller.
            let taken = {
                let mut waiting = self.waiting.lock();
                let job = waiting.pop(admits);
                job.map(|job| (job, waiting.runs.is_empty()))
            };
            if let Some((job, is_empty)) = taken {
                // Several pushes may have stored only one wake-up, so the next puller is woken here.
                if !is_empty {
                    self.filled.notify_one();
                }
                return job;
            }
            self.filled.notified().await;
        }
    }

    fn depth(&self) -> usize {
        self.waiting.lock().runs.len()
    }
}

/// Counts a waiting `pull` until it is dropped.
struct PullerCount<'a>(&'a AtomicUsize);

impl<'a> PullerCount<'a> {
    fn enter(pullers: &'a AtomicUsize) -> Self {
        pullers.fetch_add(1, Ordering::Relaxed);
        Self(pullers)
    }
}

impl Drop for PullerCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Jobs by workspace. A workspace is in `turns` exactly when it has jobs.
#[derive(Debug, Default)]
struct WaitingJobs {
    runs: HashSet<RunNo>,
    jobs: HashMap<Option<WorkspaceNo>, VecDeque<RunNo>>,
    turns: VecDeque<Option<WorkspaceNo>>,
}

impl WaitingJobs {
    /// Adds a job. Returns false when its run is queued already.
    fn push(&mut self, job: Job) -> bool {
        if !self.runs.insert(job.run) {
            return false;
        }
        let jobs = self.jobs.entry(job.workspace).or_default();
        if jobs.is_empty() {
            self.turns.push_back(job.workspace);
        }
        jobs.push_back(job.run);
        true
    }

    /// The oldest job of the first workspace in turn order that `admits` accepts. The others keep their turn.
    fn pop(&mut self, admits: &Admits<'_>) -> Option<Job> {
        let turn = self.turns.iter().position(|whose| admits(*whose))?;
        let workspace = self.turns.remove(turn)?;
        let jobs = self.jobs.get_mut(&workspace)?;
        let run = jobs.pop_front()?;
        if jobs.is_empty() {
            self.jobs.remove(&workspace);
        } else {
            self.turns.push_back(workspace);
        }
        self.runs.remove(&run);
        Some(Job { run, workspace })
    }
}
