//! Traces of runs, sent to a collector over OTLP. What the environment's `OTEL_…` variables say holds, as in every other program.

mod client;
mod settings;
mod span;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use runloom_engine::metrics::METRICS;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::tasks::Tasks;
use runloom_ports::trace::{Span, TraceId, TraceParent, Tracer};
use tokio::sync::mpsc;
use tracing::{info, warn};

use self::client::Client;
use self::settings::{Sampler, Settings};

/// Longest that a stopping server waits for the collector.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(3);

/// Begins to trace runs when the environment names a collector. `tasks` is stopped when no run is driven any more; what is left is
/// sent then.
pub(crate) fn open(tasks: &Tasks) -> Option<Arc<dyn Tracer>> {
    let lookup = |name: &str| std::env::var(name).ok();
    let settings = Settings::read(lookup)?;
    for remark in &settings.remarks {
        warn!("{remark}");
    }
    // Nobody's work stops because it cannot be watched.
    let mut exporter = match exporter(&settings) {
        Ok(exporter) => exporter,
        Err(error) => {
            warn!(
                error = format!("{error:#}"),
                endpoint = settings.endpoint,
                "tracing disabled"
            );
            return None;
        }
    };
    exporter.set_resource(&resource(&settings));
    info!(endpoint = settings.endpoint, "tracing enabled");
    let (queue, waiting) = mpsc::channel(settings.queue);
    let limits = BatchLimits {
        spans: settings.batch,
        delay: settings.delay,
    };
    let sending = send(exporter, waiting, limits, tasks.shutdown.clone());
    tasks.spawn("trace_exporter", sending);
    Some(Arc::new(Traces {
        queue,
        sampler: settings.sampler,
    }))
}

fn exporter(settings: &Settings) -> Result<SpanExporter> {
    let url: reqwest::Url = settings
        .endpoint
        .parse()
        .context("the endpoint is no address")?;
    anyhow::ensure!(
        matches!(url.scheme(), "http" | "https") && url.has_host(),
        "the endpoint must begin with http:// or https:// and name a host"
    );
    let client = Client::new(settings.timeout).context("cannot make a client")?;
    SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .build()
        .context("the OTEL_EXPORTER_OTLP_… variables do not fit together")
}

fn resource(settings: &Settings) -> Resource {
    let builder = Resource::builder();
    let builder = match &settings.service {
        Some(_) => builder,
        None => builder.with_service_name("runloom"),
    };
    builder
        .with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ))
        .build()
}

/// The way to the collector.
struct Traces {
    queue: mpsc::Sender<SpanData>,
    sampler: Sampler,
}

impl Tracer for Traces {
    fn samples(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        self.sampler.samples(trace, parent)
    }

    fn take(&self, spans: Vec<Span>) {
        // A collector that is slow or away costs traces, never a run; and whole traces, because a part of one is a riddle.
        match self.queue.try_reserve_many(spans.len()) {
            Ok(places) => {
                for (place, span) in places.zip(spans) {
                    place.send(span::data(span));
                }
            }
            Err(_) => METRICS.spans_dropped.add(spans.len() as u64),
        }
    }
}

/// When a batch of spans is sent.
#[derive(Clone, Copy)]
struct BatchLimits {
    spans: usize,
    /// Time after the first span of a batch.
    delay: Duration,
}

/// Sends spans in batches until the end, and then what is left.
async fn send(
    exporter: SpanExporter,
    mut waiting: mpsc::Receiver<SpanData>,
    limits: BatchLimits,
    shutdown: Shutdown,
) {
    let mut reachable = true;
    loop {
        let mut batch = Vec::new();
        let gathered = gather(&mut waiting, &mut batch, limits);
        let stopped = shutdown.until_draining(gathered).await.is_none();
        if stopped {
            waiting.close();
            while let room @ 1.. = limits.spans - batch.len()
                && waiting.recv_many(&mut batch, room).await > 0
            {}
        }
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) => {
                METRICS.spans_sent.add(count);
                if !std::mem::replace(&mut reachable, true) {
                    info!("trace export recovered");
                }
            }
            Err(error) => {
                METRICS.spans_dropped.add(count);
                // Once, not with every batch.
                if std::mem::replace(&mut reachable, false) {
                    warn!(%error, "trace export failed; runs are not affected");
                }
            }
        }
    }
}

/// Fills a batch, or as much of it as comes within the delay after its first span. Leaves it empty only when nothing can come any more.
async fn gather(
    waiting: &mut mpsc::Receiver<SpanData>,
    batch: &mut Vec<SpanData>,
    limits: BatchLimits,
) {
    if waiting.recv_many(batch, limits.spans).await == 0 {
        return;
    }
    let full = async {
        while batch.len() < limits.spans {
            let room = limits.spans - batch.len();
            if waiting.recv_many(batch, room).await == 0 {
                return;
            }
        }
    };
    // Too late is no failure: what has come is sent.
    let _ = tokio::time::timeout(limits.delay, full).await;
}
