//! Returning the lease of a driver that panicked.

use std::sync::Arc;

use tracing::error;

use super::Worker;
use crate::driver::MailNotifier;
use runloom_ports::queue::Job;
use runloom_ports::store::{Batch, Chunk, Claim, Lease, MailNo, Next, SubRuns, WorkspaceNo};

/// Returns the lease when it is dropped by a panic, so that the run continues or, after several attempts, fails.
pub(super) struct ReleaseOnPanic<'a> {
    worker: &'a Worker,
    lease: Lease,
    workspace: WorkspaceNo,
    last_seq: u64,
    notifier: Arc<MailNotifier>,
    armed: bool,
}

impl<'a> ReleaseOnPanic<'a> {
    /// The guard of a run that was just claimed.
    pub(super) fn of(worker: &'a Worker, claim: &Claim, notifier: &Arc<MailNotifier>) -> Self {
        let last = claim.log.last();
        Self {
            worker,
            lease: claim.lease,
            workspace: claim.workspace,
            last_seq: last.map_or(0, |entry| entry.chunk.last_seq),
            notifier: Arc::clone(notifier),
            armed: true,
        }
    }

    /// The driver ended without a panic.
    pub(super) fn defuse(mut self) {
        self.armed = false;
    }
}

impl Drop for ReleaseOnPanic<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (store, lease) = (Arc::clone(&self.worker.parts.store), self.lease);
        let batch = Batch {
            chunk: Chunk {
                first_seq: self.last_seq + 1,
                last_seq: self.last_seq,
                terminal: false,
                frames: bytes::Bytes::new(),
            },
            notes: String::new(),
            at: self.worker.clock.now(),
            opened: Vec::new(),
            closed: Vec::new(),
            approvals: Vec::new(),
            expired_approvals: Vec::new(),
            mail_through: MailNo::default(),
            unless_mail: false,
            status: None,
            mail: Vec::new(),
            sub_runs: SubRuns::default(),
            stop_below: None,
            usage: None,
            speaker: None,
            progress: false,
            next: Next::Return,
        };
        let queue = Arc::clone(&self.worker.parts.queue);
        let sweep = Arc::clone(&self.worker.sweep);
        let job = Job {
            run: lease.run,
            workspace: Some(self.workspace),
        };
        self.worker.leave(job, &self.notifier);
        self.worker
            .parts
            .tasks
            .spawn("release_on_panic", async move {
                match store.commit(lease, batch).await {
                    Ok(_) => {
                        queue.push(job);
                        // It may be a crash suspect by now, which only the sweeper takes up.
                        sweep.notify_one();
                    }
                    Err(error) => error!(run = lease.run.0, %error, "lease return failed"),
                }
            });
    }
}
