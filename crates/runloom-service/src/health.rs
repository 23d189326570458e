//! Health of a process: readiness, and the metrics page.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use runloom_engine::metrics::{MetricType, Text, render};
use runloom_ports::bus::Bus;
use runloom_ports::clock::Clock;
use runloom_ports::queue::Queue;
use runloom_ports::store::Store;

/// Time that the store has to return its values.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a successful write proves that the store takes writes.
const WRITE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The setting that a readiness check writes.
const WRITE_CHECK: &str = "write_check";

/// Readiness and metrics of this process.
pub struct HealthService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) bus: Arc<dyn Bus>,
    /// The last successful write of a readiness check. The lock is held during a check: concurrent ones share it.
    pub(crate) written: tokio::sync::Mutex<Option<Instant>>,
}

impl HealthService {
    /// Checks that the store answers and takes a write. A write of the last second counts, so that probes cost little.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ready(&self) -> Result<()> {
        let mut written = self.written.lock().await;
        if written.is_some_and(|at| at.elapsed() < WRITE_CHECK_INTERVAL) {
            return Ok(());
        }
        *written = None;
        let now = Clock.now().0.to_string();
        let write = self.store.put_setting(WRITE_CHECK, &now);
        let Ok(answer) = tokio::time::timeout(STORE_TIMEOUT, write).await else {
            return Err(Error::Unavailable {
                message: "The store did not take a write in time.".to_owned(),
                retry_after: STORE_TIMEOUT,
            });
        };
        answer?;
        *written = Some(Instant::now());
        Ok(())
    }

    /// Pending approvals; left out while the store does not answer.
    async fn approval_metrics(&self, text: &mut Text) {
        let asked = tokio::time::timeout(STORE_TIMEOUT, self.store.approval_census()).await;
        let Some(census) = asked.ok().and_then(std::result::Result::ok) else {
            return;
        };
        let help = "Approvals in the store that wait for a decision.";
        text.gauge("runloom_approvals_pending", help, census.pending);
        let now = Clock.now();
        let age = census
            .oldest
            .map_or(0, |oldest| now.0.saturating_sub(oldest.0) / 1000);
        let help = "Age of the oldest approval that waits, in seconds.";
        text.gauge("runloom_approvals_oldest_seconds", help, age.max(0));
    }

    /// The metrics as text. Values of the store are the same in every process that shares it.
    pub async fn metrics(&self) -> String {
        let mut text = Text::default();
        render(&mut text);
        let help = "Jobs that wait in this process.";
        text.gauge("runloom_queue_depth", help, self.queue.depth());
        let help = "Whether the queue's broker is reached (1) or runs are found by sweeping (0).";
        text.gauge("runloom_queue_up", help, u8::from(self.queue.is_up()));
        let help = "Whether the bus is reached (1) or changes are found by looking (0).";
        text.gauge("runloom_bus_up", help, u8::from(self.bus.is_up()));
        let asked = tokio::time::timeout(STORE_TIMEOUT, self.store.census()).await;
        let census = asked.ok().and_then(std::result::Result::ok);
        let help = "Whether the store answered within two seconds.";
        text.gauge("runloom_store_up", help, u8::from(census.is_some()));
        if let Some(census) = census {
            let states = [
                ("waiting", census.waiting),
                ("held", census.held),
                ("parked", census.parked),
            ];
            text.labelled(
                "runloom_store_runs",
                MetricType::Gauge,
                "Live runs in the store: without a worker, with one, parked.",
                states.map(|(state, runs)| (format!("{{state=\"{state}\"}}"), runs)),
            );
        }
        self.approval_metrics(&mut text).await;
        text.into_string()
    }
}
