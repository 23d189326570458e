//! What this process and its neighbours look like from outside: the metrics page.

use std::time::Duration;

use crate::service::Service;
use runloom_engine::metrics::{MetricType, Text, render};

/// How long the store may take to say what it holds.
const ASK_AT_MOST: Duration = Duration::from_secs(2);

impl Service {
    /// Pending approvals; left out while the store does not answer.
    async fn approval_metrics(&self, text: &mut Text) {
        let asked = tokio::time::timeout(ASK_AT_MOST, self.parts.store.approval_census()).await;
        let Some(census) = asked.ok().and_then(Result::ok) else {
            return;
        };
        let help = "Approvals in the store that wait for a decision.";
        text.gauge("runloom_approvals_pending", help, census.pending);
        let now = self.clock.now();
        let age = census
            .oldest
            .map_or(0, |oldest| now.0.saturating_sub(oldest.0) / 1000);
        let help = "Age of the oldest approval that waits, in seconds.";
        text.gauge("runloom_approvals_oldest_seconds", help, age.max(0));
    }

    /// The metrics as text. Values of the store are the same on every process that shares it.
    pub async fn metrics(&self) -> String {
        let mut text = Text::default();
        render(&mut text);
        let parts = &self.parts;
        let help = "Jobs that wait in this process.";
        text.gauge("runloom_queue_depth", help, parts.queue.depth());
        let help = "Whether the queue's broker is reached (1) or runs are found by sweeping (0).";
        text.gauge("runloom_queue_up", help, u8::from(parts.queue.is_up()));
        let help = "Whether the bus is reached (1) or changes are found by looking (0).";
        text.gauge("runloom_bus_up", help, u8::from(parts.bus.is_up()));
        let asked = tokio::time::timeout(ASK_AT_MOST, parts.store.census()).await;
        let census = asked.ok().and_then(Result::ok);
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
