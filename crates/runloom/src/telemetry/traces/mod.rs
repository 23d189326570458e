//! Traces of runs, exported to a collector over OTLP as the `OTEL_…` variables say.

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

/// How long a stopping server waits for the collector.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(3);

/// Starts tracing runs when the environment names a collector. `tasks` is stopped after the last run, and the
/// remaining spans are exported then.
pub(crate) fn open(tasks: &Tasks) -> Option<Arc<dyn Tracer>> {
    let lookup = |name: &str| std::env::var(name).ok();
    let settings = Settings::read(lookup)?;
    for remark in &settings.remarks {
        warn!("{remark}");
    }
    // Runs continue without traces.
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

/// The exporter of the collector.
struct Traces {
    queue: mpsc::Sender<SpanData>,
    sampler: Sampler,
}

impl Tracer for Traces {
    fn samples(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        self.sampler.samples(trace, parent)
    }

    fn take(&self, spans: Vec<Span>) {
        // A slow or unavailable collector costs traces, never a run. Whole traces are dropped, because a part of one
        // misleads.
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

/// Size and delay of a batch.
#[derive(Clone, Copy)]
struct BatchLimits {
    spans: usize,
    /// Maximum time after the first span of a batch.
    delay: Duration,
}

/// Exports spans in batches until the end, then the remaining ones.
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
                // Logged once, not for every batch.
                if std::mem::replace(&mut reachable, false) {
                    warn!(%error, "trace export failed; runs are not affected");
                }
            }
        }
    }
}

/// Fills a batch with the spans that arrive within the delay after its first one. Empty only when the channel is
/// closed.
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
    // The delay is over: export what arrived.
    let _ = tokio::time::timeout(limits.delay, full).await;
}
