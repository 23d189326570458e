//! W4: thousands of runs at once, each with a token every 200 ms: what one open stream costs.

use std::time::Duration;

use crate::drive::{Target, burst, load};
use crate::meter::{Meter, open_files_limit};
use crate::outcome::Outcome;
use crate::report::{Goal, Row};

use super::{Bench, errors};

const MODEL: &str = "bench-t60-d200";
const TOKENS: u64 = 60;
const WARM: &str = "bench-t5";
const PROMPT: &str = "Take your time.";

/// All runs are started within this time, well before the first one ends.
const RAMP: Duration = Duration::from_secs(5);

/// Descriptors beside the streams: the store's files, listeners, logs.
const SPARE_FILES: usize = 300;

/// How often memory is read.
const READING: Duration = Duration::from_millis(250);

struct Level {
    outcome: Outcome,
    cpu: f64,
    idle: f64,
    /// Resident bytes, read at regular times.
    readings: Vec<f64>,
}

/// W4.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut each = Vec::new();
    for full in [2_000, 10_000] {
        let (streams, note) = affordable(bench.effort.of(full))?;
        let (floor, at_floor) = bench.floor()?;
        let floors = level(&at_floor, floor.meter(), streams).await?;
        drop(floor);
        let server = bench.server("w4", &[MODEL, WARM])?;
        let ours = level(&server.target, server.running.meter(), streams).await?;
        drop(server);
        bench.place.clear("w4");
        rows.extend(judged(&ours, &floors, streams, &note));
        each.push((streams, ours.per_stream(streams)));
    }
    if let [(fewer, few), (more, many)] = each[..]
        && fewer < more
    {
        let what = "memory per stream, many by few";
        rows.push(Row::alone("W4", what, "×", many / few, Goal::AtMost(1.1)));
    }
    Ok(rows)
}

/// As many streams as the limit of open files allows: a server holds two connections for each.
fn affordable(wanted: u64) -> anyhow::Result<(u64, String)> {
    let limit = open_files_limit()?;
    let most = (limit.saturating_sub(SPARE_FILES) / 2) as u64;
    if wanted <= most {
        return Ok((wanted, String::new()));
    }
    let needed = wanted * 2 + SPARE_FILES as u64;
    let note = format!(
        "{wanted} streams need {needed} open files, {limit} are allowed: ulimit -n {needed}"
    );
    crate::say(&format!("   {note}; going on with {most}"));
    Ok((most, note))
}

async fn level(target: &Target, meter: Meter, streams: u64) -> anyhow::Result<Level> {
    load(target, &target.job(WARM, PROMPT, 5), 50, 4).await;
    let idle = meter.resident()?;
    let before = meter.cpu()?;
    let job = target.job(MODEL, PROMPT, TOKENS);
    let pace = RAMP / u32::try_from(streams)?;
    let mut readings = Vec::new();
    let running = burst(target, &job, streams, pace);
    tokio::pin!(running);
    let mut clock = tokio::time::interval(READING);
    let outcome = loop {
        tokio::select! {
            outcome = &mut running => break outcome,
            _ = clock.tick() => readings.push(meter.resident()?),
        }
    };
    Ok(Level {
        outcome,
        cpu: meter.cpu()? - before,
        idle,
        readings,
    })
}

impl Level {
    fn per_stream(&self, streams: u64) -> f64 {
        let most = self.readings.iter().copied().fold(0.0, f64::max);
        (most - self.idle) / streams as f64 / 1024.0
    }

    /// How memory above the idle server went from the end of the ramp to the first ends.
    fn growth(&self) -> f64 {
        let each = READING.as_secs_f64();
        let at = |seconds: f64| {
            let reading = self.readings.get((seconds / each) as usize);
            reading.copied().unwrap_or(f64::NAN) - self.idle
        };
        let ramp = RAMP.as_secs_f64();
        at(TOKENS as f64 * 0.2 - 0.5) / at(ramp + 1.0)
    }
}

fn judged(ours: &Level, floor: &Level, streams: u64, note: &str) -> Vec<Row> {
    let what = |measure: &str| format!("{measure}, {streams} streams");
    let events = (streams * TOKENS) as f64;
    let pair = |of: &dyn Fn(&Level) -> f64| (of(ours), of(floor));
    vec![
        errors(
            "W4",
            &format!("{streams} streams"),
            &[&ours.outcome, &floor.outcome],
        )
        .noted(note),
        Row::beside(
            "W4",
            what("memory per stream"),
            "KiB",
            pair(&|level| level.per_stream(streams)),
            Goal::RatioAtMost(2.0),
        ),
        Row::alone(
            "W4",
            what("memory at the end of the streams, by their start"),
            "×",
            ours.growth(),
            Goal::Told,
        ),
        Row::beside(
            "W4",
            what("p99 to the terminal event"),
            "ms",
            pair(&|level| level.outcome.to_end(0.99)),
            Goal::RatioAtMost(1.05),
        ),
        Row::beside(
            "W4",
            what("p50 to the terminal event"),
            "ms",
            pair(&|level| level.outcome.to_end(0.5)),
            Goal::Told,
        ),
        Row::beside(
            "W4",
            what("p99 to the first text"),
            "ms",
            pair(&|level| level.outcome.to_first(0.99)),
            Goal::Told,
        ),
        Row::beside(
            "W4",
            what("CPU per token"),
            "µs",
            pair(&|level| level.cpu / events * 1e6),
            Goal::Told,
        ),
    ]
}
