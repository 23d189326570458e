//! The queue port: which runs want a worker, and who wakes whom.

use async_trait::async_trait;

use super::store::{RunNo, WorkspaceNo};

/// Jobs waiting for workers. Only numbers travel: the store holds everything else, and a lost or doubled job costs time, never
/// work, because claims are idempotent and a sweeper pushes what was forgotten.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Offers a run to the workers. Never waits: the store bounds the backlog, not the queue.
    fn push(&self, job: Job);

    /// Offers a run to the workers of this process alone, past any broker. For what a sweeper found in the store: the sweepers of
    /// the other processes find it too, so passing it on would only double it, and it must be found when the broker is down.
    fn push_here(&self, job: Job) {
        self.push(job);
    }

    /// The next job of those workspaces that `admits` lets in, which take turns; the jobs of others go on waiting. `admits` is
    /// asked anew whenever a job arrives, not when its answer changes: for that, drop the future and pull again. Cancel-safe:
    /// dropping the future loses no job.
    async fn pull(&self, admits: &Admits<'_>) -> Job;

    /// A pulled job was tried: its run was claimed, or is not to be had. A queue that keeps pulled jobs until then, to give them
    /// to somebody else when this process dies, forgets it now. Never waits.
    fn done(&self, _job: Job) {}

    /// Whether jobs reach other processes now; a queue without a broker is always up.
    fn is_up(&self) -> bool {
        true
    }

    /// Jobs waiting now, as far as this process knows.
    fn depth(&self) -> usize;
}

/// A run that wants a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Which run.
    pub run: RunNo,
    /// Whose; for fairness. Unknown only in messages that another version wrote.
    pub workspace: Option<WorkspaceNo>,
}

/// Says whether a workspace may have one more run driven now.
pub type Admits<'a> = dyn Fn(Option<WorkspaceNo>) -> bool + Send + Sync + 'a;
