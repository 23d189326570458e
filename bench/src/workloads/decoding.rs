//! The inner loops alone: a provider's response to model events, a request to its bytes, an event to its frame.

use std::time::Instant;

use bytes::BytesMut;
use runloom_protocol::event::{Event, TextDelta};

use crate::decoding::measure_in_child;
use crate::report::{Compared, Goal, Row};

use super::{Bench, codecs};

const CALLS: u64 = 200;
const FRAMES: u64 = 5_000_000;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for cost in measure_in_child(&bench.launcher.provider, bench.effort.scale(CALLS))? {
        let figures = Compared {
            ours: cost.read_and_decode_ns,
            reference: cost.read_ns,
        };
        let measure = format!("{}: CPU per delta to read and decode", cost.api);
        let row = Row::compared(measure, "ns", figures, Goal::None);
        rows.push(row.against("floor's client, reading only"));
    }
    rows.extend(write_frames(bench.effort.scale(FRAMES))?);
    rows.extend(codecs::measure()?);
    Ok(rows)
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
        event.write_frame(std::hint::black_box(seq), 1_793_491_200_123, &mut out)?;
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
