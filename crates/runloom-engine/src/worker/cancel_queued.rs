//! Cancelled runs that nobody holds are ended by whoever was asked.

use std::sync::Arc;

use super::{Worker, WorkerParts, WorkerSettings};
use runloom_ports::queue::Job;
use runloom_ports::store::{Delivery, RunNo, WorkspaceNo};

/// Cancelled runs that are ended at once beside those that have places.
pub(super) const ENDINGS: usize = 32;

impl Worker {
    /// A worker that drives nothing: all it does is to end cancelled runs that nobody holds, for a process that answers requests.
    /// Such an end is one batch, so it gives no signs of life: when it takes too long, another worker sees to it.
    #[must_use]
    pub fn for_endings(parts: WorkerParts, mut settings: WorkerSettings) -> Arc<Self> {
        settings.max_concurrent = 0;
        Arc::new(Self::new(parts, settings))
    }

    /// Ends a cancelled run that nobody holds, here and now, without a place: it does nothing but end, and a worker that is full
    /// must not make its client wait. With too many of them at once it is offered to the workers.
    pub fn end(self: &Arc<Self>, run: RunNo, workspace: WorkspaceNo) {
        let turn = Arc::clone(&self.endings).try_acquire_owned();
        let (false, Ok(turn)) = (self.parts.tasks.stop.is_cancelled(), turn) else {
            return self.notify(Delivery::Queue(run), workspace);
        };
        let Some(notifier) = self.notifiers.try_install(run) else {
            return self.notify(Delivery::Owner(run), workspace);
        };
        let worker = Arc::clone(self);
        self.parts.tasks.spawn("end a cancelled run", async move {
            let job = Job {
                run,
                workspace: Some(workspace),
            };
            // Also when it is a suspect: what kills workers is what it will not do.
            worker
                .claim_and_drive(job, notifier, (u32::MAX, None))
                .await;
            drop(turn);
        });
    }
}
