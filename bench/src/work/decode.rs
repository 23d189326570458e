//! The inner loops alone: a provider's bytes to model events, and an event to its frame.
//!
//! The decoders are reached as the server reaches them, by a call over loopback; reading the same bytes with the client of the floor and
//! dropping them is what they are compared with. It runs in this process, so this process is what is metered.

use std::time::Instant;

use anyhow::Context;
use bytes::BytesMut;
use futures_util::StreamExt;
use runloom_models::{ModelSettings, ProviderSettings};
use runloom_ports::model::{Message, Model, ModelEvent, ModelRequest};
use runloom_protocol::definition::ProviderKind;
use runloom_protocol::event::{Event, TextDelta};

use crate::meter::Meter;
use crate::report::{Goal, Row};

use super::Bench;

const MODEL: &str = "bench-t10000-bulk";
const TOKENS: u64 = 10_000;
const CALLS: u64 = 200;
const FRAMES: u64 = 5_000_000;

/// What reading some answers took.
struct Cost {
    cpu: f64,
    events: f64,
}

/// The micro-benchmarks.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    crate::install_crypto();
    let mut rows = Vec::new();
    let calls = bench.effort.of(CALLS);
    for (kind, path) in [
        (ProviderKind::Openai, "responses"),
        (ProviderKind::OpenaiCompatible, "chat/completions"),
    ] {
        let url = format!("{}/v1", bench.provider.url());
        let floor = read(&format!("{url}/{path}"), calls).await?;
        let ours = decode(kind, &url, calls).await?;
        let nanoseconds = |cost: &Cost| cost.cpu / ours.events * 1e9;
        rows.push(Row::beside(
            "decode",
            format!("{path}: CPU to read and decode a delta, by the floor's client reading alone"),
            "ns",
            (nanoseconds(&ours), nanoseconds(&floor)),
            Goal::Told,
        ));
    }
    rows.extend(frames(bench.effort.of(FRAMES))?);
    rows.extend(super::counted::measure()?);
    Ok(rows)
}

/// The floor: the bytes are fetched and dropped.
async fn read(url: &str, calls: u64) -> anyhow::Result<Cost> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let body = serde_json::json!({"model": MODEL, "stream": true}).to_string();
    let meter = Meter::of(std::process::id());
    let before = meter.cpu()?;
    for _ in 0..calls {
        let answer = client.post(url).body(body.clone()).send().await?;
        let mut pieces = answer.error_for_status()?.bytes_stream();
        while let Some(piece) = pieces.next().await {
            piece?;
        }
    }
    Ok(Cost {
        cpu: meter.cpu()? - before,
        events: (calls * TOKENS) as f64,
    })
}

async fn decode(kind: ProviderKind, url: &str, calls: u64) -> anyhow::Result<Cost> {
    let provider = ProviderSettings {
        id: "script".to_owned(),
        base_url: Some(url.to_owned()),
        api_key: Some("sk-bench".into()),
        ..ProviderSettings::default()
    };
    let settings = ModelSettings {
        vendor_model_id: MODEL.to_owned(),
        ..ModelSettings::default()
    };
    let model = runloom_models::open(kind, &provider, &settings)?;
    let meter = Meter::of(std::process::id());
    let before = meter.cpu()?;
    let mut events = 0;
    for _ in 0..calls {
        events += call(model.as_ref()).await?;
    }
    anyhow::ensure!(
        events == calls * TOKENS,
        "{events} deltas came, not {}",
        calls * TOKENS
    );
    Ok(Cost {
        cpu: meter.cpu()? - before,
        events: events as f64,
    })
}

async fn call(model: &dyn Model) -> anyhow::Result<u64> {
    let request = ModelRequest {
        system: "Answer.".into(),
        cache_key: "bench".into(),
        ..ModelRequest::new(vec![Message::User {
            text: "Say ten thousand words.".into(),
        }])
    };
    let mut stream = model.call(request).await.context("the call was refused")?;
    let mut deltas = 0;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Text(_) = event.context("the call broke")? {
            deltas += 1;
        }
    }
    Ok(deltas)
}

/// An event to the bytes that are stored and sent.
fn frames(count: u64) -> anyhow::Result<Vec<Row>> {
    let event = Event::AssistantDelta(TextDelta {
        text: "every ".to_owned(),
    });
    let mut out = BytesMut::new();
    let mut bytes = 0;
    let begun = Instant::now();
    for seq in 0..count {
        event.write_frame(std::hint::black_box(seq), &mut out)?;
        if out.len() > 64 << 10 {
            bytes += out.len();
            out.clear();
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    bytes += std::hint::black_box(&out).len();
    let count = count as f64;
    let each = seconds / count * 1e9;
    let speed = bytes as f64 / seconds / 1e6;
    Ok(vec![
        Row::alone(
            "decode",
            "an event written as its frame",
            "ns",
            each,
            Goal::Told,
        ),
        Row::alone("decode", "frames written", "MB/s", speed, Goal::Told),
    ])
}
