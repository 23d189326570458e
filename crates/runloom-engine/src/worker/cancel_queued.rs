//! Ending cancelled runs that no worker holds.

use std::sync::Arc;

use super::{ClaimTerms, Worker, WorkerParts, WorkerSettings};
use runloom_ports::queue::Job;
use runloom_ports::store::{Delivery, RunNo, WorkspaceNo};

/// Cancelled runs that are ended concurrently without run slots.
pub(super) const ENDINGS: usize = 32;

impl Worker {
    /// A worker without run slots, for processes of the role `api`: it only ends cancelled runs that no worker holds.
    /// It sends no heartbeat, because such an end is one batch; if that takes too long, another worker does it.
    #[must_use]
    pub fn for_endings(parts: WorkerParts, mut settings: WorkerSettings) -> Arc<Self> {
        settings.max_concurrent = 0;
        Arc::new(Self::new(parts, settings))
    }

    /// Ends a cancelled run that no worker holds, without a run slot, so that a full worker does not delay the cancel.
    /// When too many are ended at the same time, the run is offered to the queue.
    pub fn end(self: &Arc<Self>, run: RunNo, workspace: WorkspaceNo) {
        let permit = Arc::clone(&self.endings).try_acquire_owned();
        let (false, Ok(permit)) = (self.parts.tasks.shutdown.is_draining(), permit) else {
            return self.notify(Delivery::Queue(run), workspace);
        };
        let Some(notifier) = self.notifiers.try_install(run) else {
            return self.notify(Delivery::Owner(run), workspace);
        };
        let worker = Arc::clone(self);
        self.parts.tasks.spawn("cancel_queued", async move {
            let job = Job {
                run,
                workspace: Some(workspace),
            };
            // Crash suspects as well: a cancelled run does nothing that could crash the worker.
            let terms = ClaimTerms {
                max_attempts: u32::MAX,
                suspicion: None,
            };
            worker.claim_and_drive(job, notifier, terms).await;
            drop(permit);
        });
    }
}
