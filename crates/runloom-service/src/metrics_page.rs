//! What this process and its neighbours look like from outside: the metrics page.

use std::time::Duration;

use crate::service::Service;
use runloom_engine::metrics::{MetricType, Text, render};

/// How long the store may take to say what it holds.
const ASK_AT_MOST: Duration = Duration::from_secs(2);

impl Service {
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
        text.into_string()
    }
}
