//! The queue port: runs that wait for a worker.

use async_trait::async_trait;

use super::store::{RunNo, WorkspaceNo};

/// Jobs that wait for workers. A job is only a number; the store has the rest. A lost or repeated job costs time, not
/// correctness, because claims are idempotent and the sweeper pushes lost jobs again.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Offers a run to the workers without waiting. The store bounds the backlog.
    fn push(&self, job: Job);

    /// Offers a run to the workers of this process only, without a broker. For jobs of the sweeper: the sweepers of
    /// other processes find the same runs, also when the broker is down.
    fn push_here(&self, job: Job);

    /// The next job of the workspaces that `admits` accepts, which take turns. `admits` is called when a job arrives,
    /// not when its result changes; then drop the future and pull again. Cancel-safe: a dropped future has taken no
    /// job.
    async fn pull(&self, admits: &Admits<'_>) -> Job;

    /// Acknowledges a pulled job without waiting: its run was claimed or is not available. A broker redelivers a job
    /// that was not acknowledged when this process dies.
    fn done(&self, job: Job);

    /// Whether jobs reach other processes now; a queue without a broker is always up.
    fn is_up(&self) -> bool;

    /// Number of jobs that wait in this process.
    fn depth(&self) -> usize;
}

/// A run that waits for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The run.
    pub run: RunNo,
    /// Its workspace, for fairness. Missing only in messages of another version.
    pub workspace: Option<WorkspaceNo>,
}

/// Whether a workspace may have one more run slot now.
pub type Admits<'a> = dyn Fn(Option<WorkspaceNo>) -> bool + Send + Sync + 'a;
