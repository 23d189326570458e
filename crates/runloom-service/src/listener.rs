//! The listener: passes the signals of other processes on to hub, worker and registry.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::warn;

use crate::error::Chain;
use crate::services::Services;
use runloom_engine::hub::Hub;
use runloom_engine::worker::Worker;
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::tasks::Tasks;

/// Time between two reads of the registry without an announcement, which bounds the delay after a lost message.
const REGISTRY_POLL: Duration = Duration::from_secs(15);

/// Listens until the process stops.
pub fn listen(
    bus: Arc<dyn Bus>,
    hub: Arc<Hub>,
    worker: Option<Arc<Worker>>,
    service: Arc<Services>,
    tasks: &Tasks,
) {
    if !bus.is_shared() {
        return;
    }
    let changed = Arc::new(Notify::new());
    let registry = Arc::clone(&changed);
    // Streams are served while the process drains, so only the interruption ends this.
    let shutdown = tasks.shutdown.clone();
    tasks.spawn_detached("bus_listener", async move {
        while let Some(signal) = shutdown.until_interrupted(bus.next()).await {
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
    // A task of its own: streams must not wait while the registry is read.
    let shutdown = tasks.shutdown.clone();
    tasks.spawn("registry_refresh", async move {
        while !shutdown.is_draining() {
            let announced = tokio::select! {
                () = shutdown.draining() => return,
                () = registry.notified() => true,
                () = tokio::time::sleep(REGISTRY_POLL) => false,
            };
            if announced {
                service.tenancy().forget();
                service.registry().forget();
            }
            if let Err(error) = service.registry().catch_up().await {
                warn!(error = %Chain(&error), "registry refresh failed");
            }
        }
    });
}
