//! Wakes runs that have mail or want a worker.

use std::sync::Arc;

use super::mail_notifiers::MailNotifiers;
use crate::driver::WakeRuns;
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::queue::{Job, Queue};
use runloom_ports::store::{Delivery, WorkspaceNo};

/// Wakes the runs that this process drives, and announces the rest to other processes.
pub(super) struct RunWaker {
    pub(super) notifiers: Arc<MailNotifiers>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) queue: Arc<dyn Queue>,
}

impl WakeRuns for RunWaker {
    fn wake(&self, delivery: Delivery, workspace: WorkspaceNo) {
        let job = |run| Job {
            run,
            workspace: Some(workspace),
        };
        match delivery {
            Delivery::Owner(run) if self.notifiers.ring(run) => {}
            Delivery::Owner(run) => {
                self.bus.announce(Signal::Mail(run));
                self.queue.push(job(run));
            }
            Delivery::Queue(run) => self.queue.push(job(run)),
        }
    }
}
