//! W4: thousands of runs at the same time, each with a token every 200 ms.

use std::time::Duration;

use crate::load::{Ramp, Volume, closed_loop, open_loop};
use crate::load_result::LoadResult;
use crate::procfs::open_files_limit;
use crate::report::{Compared, Goal, Row};
use crate::server::Deployment;
use crate::target::Prompt;

use super::Bench;
use super::sample::{Subject, failures};

const PROMPT: Prompt = Prompt {
    model: "bench-t60-d200",
    text: "Take your time.",
    tokens: 60,
};

const WARM_UP: Prompt = Prompt {
    model: "bench-t5",
    tokens: 5,
    ..PROMPT
};

const WARM_UP_VOLUME: Volume = Volume {
    runs: 50,
    concurrency: 4,
};

/// Time in which all runs start, before the first one ends after 12 s. At most 1,000 per second, because every run
/// needs a TLS handshake.
fn ramp(streams: u64) -> Duration {
    Duration::from_millis(streams.clamp(5_000, 10_000))
}

/// Open files besides the streams': the store, listeners, logs.
const OTHER_FILES: usize = 300;

/// Interval of memory readings.
const READING_INTERVAL: Duration = Duration::from_millis(250);

/// One level of concurrency.
struct Level {
    streams: u64,
    /// Goal for the p99 to the terminal event.
    p99: Goal,
}

const LEVELS: [Level; 2] = [
    Level {
        streams: 2_000,
        p99: Goal::RatioAtMost(1.05),
    },
    Level {
        streams: 10_000,
        p99: Goal::None,
    },
];

/// What a server used while it served the streams.
struct Usage {
    load: LoadResult,
    cpu: f64,
    idle_bytes: f64,
    /// Resident bytes at regular intervals.
    readings: Vec<f64>,
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut memory = Vec::new();
    let levels = match bench.launcher.deployment {
        Deployment::Sqlite => &LEVELS[..],
        Deployment::PostgresSingle | Deployment::PostgresCluster => &LEVELS[..1],
    };
    for level in levels {
        let wanted = bench.effort.scale(level.streams);
        let streams = wanted.min(max_streams()?);
        let floor = bench.floor()?;
        let floor_usage = serve(&floor.subject, streams).await?;
        drop(floor);
        let server = bench.server("w4", &[PROMPT.model, WARM_UP.model])?;
        let ours = serve(&server.subject, streams).await?;
        drop(server);
        bench.launcher.clear("w4");
        rows.extend(compare(&ours, &floor_usage, streams, level.p99));
        if streams < wanted {
            rows.push(limited(wanted, streams)?);
        }
        memory.push(ours.kib_per_stream(streams));
    }
    if let [few, many] = memory[..] {
        let figures = Compared {
            ours: many,
            reference: few,
        };
        let measure = "memory per stream, many streams";
        let row = Row::compared(measure, "KiB", figures, Goal::RatioAtMost(1.1));
        rows.push(row.against("few streams"));
    }
    Ok(rows)
}

/// A server holds two connections for each stream.
fn max_streams() -> anyhow::Result<u64> {
    Ok((open_files_limit()?.saturating_sub(OTHER_FILES) / 2) as u64)
}

fn limited(wanted: u64, streams: u64) -> anyhow::Result<Row> {
    let needed = wanted * 2 + OTHER_FILES as u64;
    let reason = format!(
        "{wanted} streams need {needed} open files, the limit is {}; raise it with `ulimit -n {needed}`. Measured with \
         {streams}",
        open_files_limit()?
    );
    Ok(Row::missing(format!("{wanted} streams"), reason))
}

async fn serve(subject: &Subject, streams: u64) -> anyhow::Result<Usage> {
    let target = &subject.target;
    closed_loop(target, &target.run(WARM_UP), WARM_UP_VOLUME).await;
    let idle_bytes = subject.processes.resident_bytes()?;
    let cpu_before = subject.processes.cpu_seconds()?;
    let request = target.run(PROMPT);
    let ramp = Ramp {
        runs: streams,
        interval: ramp(streams) / u32::try_from(streams)?,
    };
    let load = open_loop(target, &request, ramp);
    tokio::pin!(load);
    let mut readings = Vec::new();
    let mut clock = tokio::time::interval(READING_INTERVAL);
    let load = loop {
        tokio::select! {
            load = &mut load => break load,
            _ = clock.tick() => readings.push(subject.processes.resident_bytes()?),
        }
    };
    Ok(Usage {
        load,
        cpu: subject.processes.cpu_seconds()? - cpu_before,
        idle_bytes,
        readings,
    })
}

impl Usage {
    fn kib_per_stream(&self, streams: u64) -> f64 {
        let peak = self.readings.iter().copied().fold(0.0, f64::max);
        (peak - self.idle_bytes) / streams as f64 / 1024.0
    }

    /// Memory above idle just before the first stream ends, divided by memory just after the last one started.
    fn growth(&self, streams: u64) -> f64 {
        let at = |seconds: f64| {
            let index = (seconds / READING_INTERVAL.as_secs_f64()) as usize;
            self.readings.get(index).copied().unwrap_or(f64::NAN) - self.idle_bytes
        };
        at(PROMPT.tokens as f64 * 0.2 - 0.5) / at(ramp(streams).as_secs_f64() + 1.0)
    }
}

fn compare(ours: &Usage, floor: &Usage, streams: u64, p99: Goal) -> Vec<Row> {
    let tokens = (streams * PROMPT.tokens) as f64;
    let row = |measure: &str, unit, value: &dyn Fn(&Usage) -> f64, goal| {
        let figures = Compared {
            ours: value(ours),
            reference: value(floor),
        };
        Row::compared(format!("{measure}, {streams} streams"), unit, figures, goal)
    };
    vec![
        row(
            "p99 to the terminal event",
            "ms",
            &|usage| usage.load.end_ms(0.99),
            p99,
        ),
        row(
            "p50 to the terminal event",
            "ms",
            &|usage| usage.load.end_ms(0.5),
            Goal::None,
        ),
        row(
            "p99 to the first text",
            "ms",
            &|usage| usage.load.first_text_ms(0.99),
            Goal::None,
        ),
        row(
            "memory per stream",
            "KiB",
            &|usage| usage.kib_per_stream(streams),
            Goal::RatioAtMost(2.0),
        ),
        row(
            "CPU per token",
            "µs",
            &|usage| usage.cpu / tokens * 1e6,
            Goal::None,
        ),
        Row::single(
            format!("growth of memory while {streams} streams are open"),
            "×",
            ours.growth(streams),
            Goal::None,
        ),
        failures(&format!("{streams} streams"), &[&ours.load, &floor.load]),
    ]
}
