//! The pure parts alone, in a process whose allocations are counted: the decoders and the encoders without any HTTP.
//!
//! A program of its own, so that nothing is counted where memory and CPU are compared with a floor. `runloom-bench` starts it.
//! `runloom-bench-counted once WHAT TIMES` does one thing so often and nothing else, for callgrind: WHAT is a decoder
//! (`openairesponses`, `anthropic`, …) or `frame`; the difference between two numbers of times is what one costs.

mod figures;
#[allow(unreachable_pub, reason = "shared with a test")]
#[path = "../../../crates/runloom-models/tests/decoders/streams.rs"]
mod streams;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    reason = "shared with the fuzz targets; only the frames of the event stream are needed here"
)]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use allocation_counter::measure;
use bytes::BytesMut;
use runloom_models::probe::{Asked, Probe, Wire, encode};
use runloom_ports::model::{CallRequest, Message, ModelRequest, ToolDeclaration};
use runloom_protocol::event::{Event, TextDelta};
use serde_json::json;

use figures::{Decoder, Encoder, Figures};
use streams::{Answer, PROVIDERS};

const SHORT: usize = 1_000;
const LONG: usize = 100_000;
/// The best of so many tries counts: everything else is the machine's.
const TRIES: usize = 5;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report(),
        ["once", what, times] => once(what, times.parse()?),
        _ => anyhow::bail!("usage: runloom-bench-counted [once WHAT TIMES]"),
    }
}

fn once(what: &str, times: usize) -> anyhow::Result<()> {
    if what == "frame" {
        return frames(times, &mut BytesMut::with_capacity(1 << 20));
    }
    let named = |wire: &Wire| format!("{wire:?}").eq_ignore_ascii_case(what);
    match PROVIDERS.into_iter().find(named) {
        Some(wire) => read(wire, &streams::text(wire), times),
        None => anyhow::bail!("{what:?} is neither `frame` nor one of {PROVIDERS:?}"),
    }
}

fn report() -> anyhow::Result<()> {
    let mut decoders = Vec::new();
    for wire in PROVIDERS {
        decoders.push(decoder(wire, "text", &streams::text(wire))?);
        if let Some(arguments) = streams::arguments(wire) {
            decoders.push(decoder(wire, "arguments of a tool", &arguments)?);
        }
    }
    let kinds = [
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-3.1-pro-preview"),
        ("openai", "gpt-5.5"),
        ("openai-compatible", "llama3.3"),
    ];
    let encoders: anyhow::Result<Vec<Encoder>> = kinds
        .iter()
        .map(|(kind, model)| encoder(kind, model))
        .collect();
    let figures = Figures {
        decoders,
        encoders: encoders?,
        frame_allocations: frame_allocations()?,
    };
    let text = serde_json::to_string(&figures)?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// Reads so many deltas; the events are dropped as they come, as the driver does.
fn read(wire: Wire, answer: &Answer, deltas: usize) -> anyhow::Result<()> {
    let asked = Asked {
        thinking: false,
        hidden_tool: false,
    };
    let mut probe = Probe::new(wire, asked);
    let mut out = Vec::with_capacity(8);
    probe.chunk(&answer.before, &mut out)?;
    for _ in 0..deltas {
        probe.chunk(&answer.delta, &mut out)?;
        black_box(&out);
        out.clear();
    }
    Ok(())
}

fn decoder(wire: Wire, what: &str, answer: &Answer) -> anyhow::Result<Decoder> {
    let mut outcome = Ok(());
    let counted = measure(|| outcome = read(wire, answer, LONG));
    outcome?;
    // As many deltas in all, in many answers and in one.
    let short = best(|| {
        for _ in 0..LONG / SHORT {
            read(wire, answer, SHORT)?;
        }
        Ok(())
    })?;
    let long = best(|| read(wire, answer, LONG))?;
    Ok(Decoder {
        wire: format!("{wire:?}, {what}"),
        speed: answer.delta.len() as f64 * LONG as f64 / long / 1e6,
        allocations: counted.count_total as f64 / LONG as f64,
        short: short / LONG as f64 * 1e9,
        long: long / LONG as f64 * 1e9,
    })
}

fn encoder(kind: &str, model: &str) -> anyhow::Result<Encoder> {
    const TIMES: usize = 100;
    let request = conversation();
    let one = || -> anyhow::Result<usize> {
        let body = encode(kind, model, &request)?;
        Ok(black_box(body).map_or(0, |body| body.len()))
    };
    let bytes = one()?;
    let mut outcome = Ok(0);
    let counted = measure(|| outcome = one());
    outcome?;
    let seconds = best(|| {
        for _ in 0..TIMES {
            one()?;
        }
        Ok(())
    })?;
    Ok(Encoder {
        kind: kind.to_owned(),
        speed: (bytes * TIMES) as f64 / seconds / 1e6,
        allocations: counted.count_total as f64 / request.messages.len() as f64,
    })
}

/// A hundred turns with a tool call each.
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

/// Writes so many deltas as they are stored and sent.
fn frames(times: usize, out: &mut BytesMut) -> anyhow::Result<()> {
    let event = Event::AssistantDelta(TextDelta {
        text: "every ".to_owned(),
    });
    for seq in 0..times as u64 {
        event.write_frame(seq, out)?;
        if out.len() > 1 << 19 {
            black_box(&*out);
            out.clear();
        }
    }
    Ok(())
}

fn frame_allocations() -> anyhow::Result<f64> {
    let mut out = BytesMut::with_capacity(1 << 20);
    let mut outcome = Ok(());
    let counted = measure(|| outcome = frames(SHORT, &mut out));
    outcome?;
    Ok(counted.count_total as f64 / SHORT as f64)
}

fn best(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let begun = Instant::now();
        work()?;
        best = best.min(begun.elapsed().as_secs_f64());
    }
    Ok(best)
}
