//! The inner loops alone: a provider's response to model events, and an event to its frame.
//!
//! The response is read by the provider client over loopback, and by the floor's HTTP client, which discards the bytes.
//! Both run in this process, whose own CPU time is measured.

use std::time::Instant;

use anyhow::Context;
use bytes::BytesMut;
use futures_util::StreamExt;
use runloom_ports::model::{Message, Model, ModelEvent, ModelRequest};
use runloom_models::{ModelSettings, ProviderSettings};
use runloom_protocol::definition::ProviderKind;
use runloom_protocol::event::{Event, TextDelta};

use crate::procfs::Processes;
use crate::report::{Compared, Goal, Row};

use super::replay::LONG_RUN;
use super::{Bench, codecs};

const CALLS: u64 = 200;
const FRAMES: u64 = 5_000_000;

/// A provider kind and the path that it calls.
const APIS: [(ProviderKind, &str); 2] = [
    (ProviderKind::Openai, "responses"),
    (ProviderKind::OpenaiCompatible, "chat/completions"),
];

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    crate::install_crypto();
    let calls = bench.effort.scale(CALLS);
    let url = format!("{}/v1", bench.provider.url());
    let mut rows = Vec::new();
    for (kind, path) in APIS {
        let reference = read(&format!("{url}/{path}"), calls).await?;
        let ours = decode(kind, &url, calls).await?;
        let deltas = (calls * LONG_RUN.tokens) as f64;
        let figures = Compared {
            ours: ours / deltas * 1e9,
            reference: reference / deltas * 1e9,
        };
        let measure = format!("{path}: CPU per delta to read and decode");
        let row = Row::compared(measure, "ns", figures, Goal::None);
        rows.push(row.against("floor's client, reading only"));
    }
    rows.extend(write_frames(bench.effort.scale(FRAMES))?);
    rows.extend(codecs::measure()?);
    Ok(rows)
}

/// CPU seconds to fetch responses and discard them.
async fn read(url: &str, calls: u64) -> anyhow::Result<f64> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let body = serde_json::json!({"model": LONG_RUN.model, "stream": true}).to_string();
    let processes = Processes::new([std::process::id()]);
    let before = processes.cpu_seconds()?;
    for _ in 0..calls {
        let response = client.post(url).body(body.clone()).send().await?;
        let mut pieces = response.error_for_status()?.bytes_stream();
        while let Some(piece) = pieces.next().await {
            piece?;
        }
    }
    Ok(processes.cpu_seconds()? - before)
}

/// CPU seconds to fetch and decode responses.
async fn decode(kind: ProviderKind, url: &str, calls: u64) -> anyhow::Result<f64> {
    let provider = ProviderSettings {
        id: "script".to_owned(),
        base_url: Some(url.to_owned()),
        api_key: Some("sk-bench".into()),
        ..ProviderSettings::default()
    };
    let settings = ModelSettings {
        vendor_model_id: LONG_RUN.model.to_owned(),
        ..ModelSettings::default()
    };
    let model = runloom_models::open(kind, &provider, &settings)?;
    let processes = Processes::new([std::process::id()]);
    let before = processes.cpu_seconds()?;
    for _ in 0..calls {
        let deltas = call(model.as_ref()).await?;
        anyhow::ensure!(
            deltas == LONG_RUN.tokens,
            "expected {} deltas, got {deltas}",
            LONG_RUN.tokens
        );
    }
    Ok(processes.cpu_seconds()? - before)
}

/// Calls the model and returns the number of deltas.
async fn call(model: &dyn Model) -> anyhow::Result<u64> {
    let request = ModelRequest {
        system: "Answer.".into(),
        cache_key: "bench".into(),
        ..ModelRequest::new(vec![Message::User {
            text: LONG_RUN.text.into(),
        }])
    };
    let mut stream = model.call(request).await.context("the call was refused")?;
    let mut deltas = 0;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Text(_) = event.context("the response is incomplete")? {
            deltas += 1;
        }
    }
    Ok(deltas)
}

/// Encodes an event in the format in which it is stored and sent.
fn write_frames(count: u64) -> anyhow::Result<[Row; 2]> {
    let event = Event::AssistantDelta(TextDelta {
        text: "every ".to_owned(),
    });
    let mut out = BytesMut::new();
    let mut bytes = 0;
    let started = Instant::now();
    for seq in 0..count {
        event.write_frame(std::hint::black_box(seq), &mut out)?;
        if out.len() > 64 << 10 {
            bytes += out.len();
            out.clear();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    bytes += std::hint::black_box(&out).len();
    let ns = seconds / count as f64 * 1e9;
    let mb_per_second = bytes as f64 / seconds / 1e6;
    let measure = "writing an event's frame";
    Ok([
        Row::single(measure, "ns", ns, Goal::None),
        Row::single(measure, "MB/s", mb_per_second, Goal::None),
    ])
}
