//! A driver that panics gives its run back.

use std::sync::Arc;

use tracing::error;

use super::Worker;
use crate::driver::Doorbell;
use crate::ports::queue::Job;
use crate::ports::store::{Batch, Chunk, Lease, MailNo, Next, WorkspaceNo};

/// When a driver panics its lease is given back, so that the run goes on or, after some attempts, ends.
pub(super) struct LeaveOnPanic<'a> {
    pub(super) worker: &'a Worker,
    pub(super) lease: Lease,
    pub(super) workspace: WorkspaceNo,
    pub(super) last_seq: u64,
    pub(super) doorbell: Arc<Doorbell>,
    pub(super) armed: bool,
}

impl LeaveOnPanic<'_> {
    /// The driver ended in order.
    pub(super) fn defuse(mut self) {
        self.armed = false;
    }
}

impl Drop for LeaveOnPanic<'_> {
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
            mail_through: MailNo::default(),
            unless_mail: false,
            status: None,
            usage: None,
            next: Next::Return,
        };
        let queue = Arc::clone(&self.worker.parts.queue);
        let job = Job {
            run: lease.run,
            workspace: Some(self.workspace),
        };
        self.worker.leave(job, &self.doorbell);
        self.worker
            .parts
            .tasks
            .spawn("give a lease back", async move {
                match store.commit(lease, batch).await {
                    Ok(_) => queue.push(job),
                    Err(error) => error!(run = lease.run.0, %error, "cannot give a lease back"),
                }
            });
    }
}
