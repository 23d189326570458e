//! Hears what other processes announce, and passes it on to those concerned here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::warn;

use crate::error::Chain;
use crate::service::Service;
use runloom_engine::hub::Hub;
use runloom_engine::worker::Worker;
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::tasks::Tasks;

/// How often the registry is looked at although nobody announced a change: what a lost message can cost.
const LOOK_AT_REGISTRY: Duration = Duration::from_secs(15);

/// Listens until the process stops.
pub fn listen(
    bus: Arc<dyn Bus>,
    hub: Arc<Hub>,
    worker: Option<Arc<Worker>>,
    service: Arc<Service>,
    tasks: &Tasks,
) {
    if !bus.is_shared() {
        return;
    }
    let changed = Arc::new(Notify::new());
    let registry = Arc::clone(&changed);
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
                Signal::Registry => changed.notify_one(),
                Signal::Lost => {
                    hub.nudge_all();
                    changed.notify_one();
                    if let Some(worker) = &worker {
                        worker.ring_all();
                        worker.look();
                    }
                }
            }
        }
    });
    // Reading the registry takes a while, and streams must not wait for it.
    let stop = tasks.stop.clone();
    tasks.spawn("keep the registry fresh", async move {
        while !stop.is_cancelled() {
            let told = tokio::select! {
                () = stop.cancelled() => return,
                () = registry.notified() => true,
                () = tokio::time::sleep(LOOK_AT_REGISTRY) => false,
            };
            if told {
                service.tenancy().forget();
                service.registry().forget();
            }
            if let Err(error) = service.registry().catch_up().await {
                warn!(error = %Chain(&error), "cannot look at the stored providers");
            }
        }
    });
}
