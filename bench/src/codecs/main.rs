//! Stream decoders and request encoders without HTTP: speed, and number of allocations.
//!
//! `runloom-bench` starts this program. It is a separate one because its allocator counts, which would distort
//! comparisons of CPU and memory. `runloom-bench-codecs repeat WHAT TIMES` performs one operation, for callgrind:
//! WHAT is a decoder (`openai_responses`, `anthropic`, …) or `frame`. Subtract two runs to get the cost of one
//! operation.

mod figures;
#[allow(unreachable_pub, reason = "shared with a test")]
#[path = "../../../crates/runloom-models/tests/decoders/streams.rs"]
mod streams;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    reason = "shared with the fuzz targets; only the event stream framing is used here"
)]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use allocation_counter::measure;
use anyhow::Context;
use bytes::BytesMut;
use runloom_models::test_support::{DecoderOptions, TestDecoder, encode};
use runloom_ports::model::{CallRequest, Message, ModelRequest, ToolDeclaration};
use runloom_protocol::event::{Event, TextDelta};
use serde_json::json;

use figures::{Decoder, Encoder, Figures};
use streams::{APIS, TestResponse};

/// Deltas of a short response.
const SHORT: usize = 1_000;
/// Deltas of a long response.
const LONG: usize = 100_000;
/// The fastest attempt counts; slower ones were disturbed.
const ATTEMPTS: usize = 5;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report(),
        ["repeat", what, times] => repeat(what, times.parse()?),
        _ => anyhow::bail!("usage: runloom-bench-codecs [repeat WHAT TIMES]"),
    }
}

fn repeat(what: &str, times: usize) -> anyhow::Result<()> {
    if what == "frame" {
        return write_frames(times, &mut BytesMut::with_capacity(1 << 20));
    }
    match APIS.into_iter().find(|api| *api == what) {
        Some(api) => decode(api, &streams::text(api), times),
        None => anyhow::bail!("{what:?} is neither `frame` nor one of {APIS:?}"),
    }
}

fn report() -> anyhow::Result<()> {
    let mut decoders = Vec::new();
    for api in APIS {
        decoders.push(decoder(api, "text", &streams::text(api))?);
        if let Some(arguments) = streams::arguments(api) {
            decoders.push(decoder(api, "tool arguments", &arguments)?);
        }
    }
    let models = [
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-3.1-pro-preview"),
        ("openai_responses", "gpt-5.5"),
        ("openai_chat", "llama3.3"),
    ];
    let encoders: anyhow::Result<Vec<Encoder>> = models
        .iter()
        .map(|(api, model)| encoder(api, model))
        .collect();
    let figures = Figures {
        decoders,
        encoders: encoders?,
        allocations_per_frame: allocations_per_frame()?,
    };
    let text = serde_json::to_string(&figures)?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// Decodes `deltas` deltas and drops the events.
fn decode(api: &str, response: &TestResponse, deltas: usize) -> anyhow::Result<()> {
    let options = DecoderOptions {
        show_thinking: false,
        hidden_tool: false,
    };
    let mut decoder = TestDecoder::new(api, options).context("there is no such API")?;
    let mut out = Vec::with_capacity(8);
    decoder.chunk(&response.before, &mut out)?;
    for _ in 0..deltas {
        decoder.chunk(&response.delta, &mut out)?;
        black_box(&out);
        out.clear();
    }
    Ok(())
}

fn decoder(api: &str, what: &str, response: &TestResponse) -> anyhow::Result<Decoder> {
    let mut result = Ok(());
    let allocations = measure(|| result = decode(api, response, LONG));
    result?;
    // The same number of deltas in many short responses and in one long response.
    let short = fastest(|| {
        for _ in 0..LONG / SHORT {
            decode(api, response, SHORT)?;
        }
        Ok(())
    })?;
    let long = fastest(|| decode(api, response, LONG))?;
    Ok(Decoder {
        name: format!("{api}, {what}"),
        mb_per_second: response.delta.len() as f64 * LONG as f64 / long / 1e6,
        allocations_per_delta: allocations.count_total as f64 / LONG as f64,
        short_ns: short / LONG as f64 * 1e9,
        long_ns: long / LONG as f64 * 1e9,
    })
}

fn encoder(api: &str, model: &str) -> anyhow::Result<Encoder> {
    const TIMES: usize = 100;
    let request = conversation();
    let encode_once = || -> anyhow::Result<usize> {
        let body = encode(api, model, &request)?;
        Ok(black_box(body).map_or(0, |body| body.len()))
    };
    let bytes = encode_once()?;
    let mut result = Ok(0);
    let allocations = measure(|| result = encode_once());
    result?;
    let seconds = fastest(|| {
        for _ in 0..TIMES {
            encode_once()?;
        }
        Ok(())
    })?;
    Ok(Encoder {
        kind: api.to_owned(),
        mb_per_second: (bytes * TIMES) as f64 / seconds / 1e6,
        allocations_per_message: allocations.count_total as f64 / request.messages.len() as f64,
    })
}

/// 100 turns, each with a tool call.
fn conversation() -> ModelRequest {
    let mut messages = Vec::new();
    for turn in 0..100 {
        messages.push(Message::User {
            text: "What is the weather in Oslo today, and should I take a coat?".into(),
        });
        let id = format!("call_{turn}");
        messages.push(Message::Assistant {
            text: "Let me look.".into(),
            calls: vec![CallRequest {
                id: id.clone(),
                name: "get_weather".into(),
                input: json!({"city": "Oslo", "units": "metric"}),
            }],
            state: None,
        });
        messages.push(Message::Tool {
            call_id: id,
            name: "get_weather".into(),
            content: "{\"degrees\":21,\"sky\":\"clear\"}".into(),
            is_error: false,
        });
        messages.push(Message::Assistant {
            text: "It is clear and 21 degrees; you can leave the coat at home.".into(),
            calls: Vec::new(),
            state: None,
        });
    }
    messages.push(Message::User {
        text: "Thanks!".into(),
    });
    ModelRequest {
        system: "Answer.".into(),
        tools: Arc::new(vec![ToolDeclaration {
            name: "get_weather".to_owned(),
            description: "The weather of a city.".to_owned(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            output_schema: None,
        }]),
        cache_key: "bench".into(),
        ..ModelRequest::new(messages)
    }
}

/// Writes `times` deltas in the format in which they are stored and sent.
fn write_frames(times: usize, out: &mut BytesMut) -> anyhow::Result<()> {
    let event = Event::AssistantDelta(TextDelta {
        text: "every ".to_owned(),
    });
    for seq in 0..times as u64 {
        event.write_frame(seq, 1_793_491_200_123, out)?;
        if out.len() > 1 << 19 {
            black_box(&*out);
            out.clear();
        }
    }
    Ok(())
}

fn allocations_per_frame() -> anyhow::Result<f64> {
    let mut out = BytesMut::with_capacity(1 << 20);
    let mut result = Ok(());
    let allocations = measure(|| result = write_frames(SHORT, &mut out));
    result?;
    Ok(allocations.count_total as f64 / SHORT as f64)
}

/// Seconds of the fastest attempt.
fn fastest(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..ATTEMPTS {
        let started = Instant::now();
        work()?;
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    Ok(fastest)
}
