//! Hears what other processes announce, and passes it on to those concerned here.

use std::sync::Arc;

use crate::hub::Hub;
use crate::ports::bus::{Bus, Signal};
use crate::tasks::Tasks;
use crate::worker::Worker;

/// Listens until the process stops.
pub fn listen(bus: Arc<dyn Bus>, hub: Arc<Hub>, worker: Option<Arc<Worker>>, tasks: &Tasks) {
    if !bus.is_shared() {
        return;
    }
    // Streams are served until the very end, so only the last token ends this.
    let kill = tasks.kill.clone();
    tasks.spawn_detached("hear announcements", async move {
        while let Some(signal) = kill.run_until_cancelled(bus.next()).await {
            match signal {
                Signal::Events { run, last_seq } => hub.nudge(run, last_seq),
                Signal::Mail(run) => {
                    if let Some(worker) = &worker {
                        worker.ring(run);
                    }
                }
                Signal::Jobs => {
                    if let Some(worker) = &worker {
                        worker.look();
                    }
                }
                Signal::Lost => {
                    hub.nudge_all();
                    if let Some(worker) = &worker {
                        worker.ring_all();
                        worker.look();
                    }
                }
            }
        }
    });
}
