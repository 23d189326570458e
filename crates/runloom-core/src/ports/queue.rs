//! The queue port: which runs want a worker, and who wakes whom.

use async_trait::async_trait;

use super::store::{RunNo, WorkspaceNo};

/// Jobs waiting for workers. Only numbers travel: the store holds everything else, and a lost or doubled job costs time, never
/// work, because claims are idempotent and a sweeper pushes what was forgotten.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Offers a run to the workers. Never waits: the store bounds the backlog, not the queue.
    fn push(&self, job: Job);

    /// The next job, fair between workspaces. Cancel-safe: dropping the future loses no job.
    async fn pull(&self) -> Job;

    /// Jobs waiting now.
    fn depth(&self) -> usize;
}

/// A run that wants a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Which run.
    pub run: RunNo,
    /// Whose; for fairness. Unknown after a sweep.
    pub workspace: Option<WorkspaceNo>,
}
