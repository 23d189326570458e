//! The queue inside the process: workspaces take turns, however much each of them has waiting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use runloom_ports::queue::{Admits, Job, Queue};
use runloom_ports::store::{RunNo, WorkspaceNo};
use tokio::sync::Notify;

/// A queue for workers of this process.
#[derive(Debug, Default)]
pub struct EmbeddedQueue {
    waiting: Mutex<Waiting>,
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

    /// Whether more pullers wait than jobs: then the next job is pulled at once.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.pullers.load(Ordering::Relaxed) > self.depth()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here can panic half-way through a change.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    fn push(&self, job: Job) {
        if self.waiting().push(job) {
            self.filled.notify_one();
        }
    }

    async fn pull(&self, admits: &Admits<'_>) -> Job {
        let _puller = Puller::enter(&self.pullers);
        loop {
            // Taken and returned without an await between: a dropped future has taken nothing. If it is dropped while it holds a
            // wake-up, the wake-up goes to another puller.
            let taken = {
                let mut waiting = self.waiting();
                waiting
                    .pop(admits)
                    .map(|job| (job, waiting.runs.is_empty()))
            };
            if let Some((job, empty)) = taken {
                // Wake-ups of several pushes can melt into one; whoever takes a job passes the word on.
                if !empty {
                    self.filled.notify_one();
                }
                return job;
            }
            self.filled.notified().await;
        }
    }

    fn depth(&self) -> usize {
        self.waiting().runs.len()
    }
}

/// Counts a waiting `pull`, also one that is dropped.
struct Puller<'a>(&'a AtomicUsize);

impl<'a> Puller<'a> {
    fn enter(pullers: &'a AtomicUsize) -> Self {
        pullers.fetch_add(1, Ordering::Relaxed);
        Self(pullers)
    }
}

impl Drop for Puller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Jobs by workspace. A workspace is in `turns` exactly when it has jobs.
#[derive(Debug, Default)]
struct Waiting {
    runs: HashSet<RunNo>,
    jobs: HashMap<Option<WorkspaceNo>, VecDeque<RunNo>>,
    turns: VecDeque<Option<WorkspaceNo>>,
}

impl Waiting {
    /// False when the run waits already.
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

    /// The oldest job of the workspace whose turn it is. Those that are not let in keep their turn.
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
