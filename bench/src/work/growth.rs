//! W8: whether the ten millionth event costs what the first did, to write and to read.

use crate::drive::{Target, load};
use crate::meter::Meter;
use crate::report::{Goal, Row};

use super::{Bench, Sample, errors, replay, sample};

/// Name of the server, whose store the start with a large log uses afterwards.
pub(super) const NAME: &str = "w8";

/// Runs of 10,000 events.
const RUNS: u64 = 1_000;
const RUNS_MEASURED: u64 = 50;
const AT_ONCE: u64 = 4;
/// Many: the kernel counts CPU in hundredths of a second, and fifty replays are ten of them.
const REPLAYS: u64 = 500;

/// W8.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server(NAME, &[replay::LONG])?;
    let meter = server.running.meter();
    let target = &server.target;
    append(target, meter, 4).await?;
    let first = append(target, meter, RUNS_MEASURED).await?;
    let first_read = replay::long_run(target, meter, REPLAYS).await?;
    let runs = bench.effort.of(RUNS);
    let filling = append(target, meter, runs).await?;
    let last = append(target, meter, RUNS_MEASURED).await?;
    let last_read = replay::long_run(target, meter, REPLAYS).await?;
    let stored = bench.place.store(NAME).metadata()?.len() as f64;
    let all = runs + 2 * RUNS_MEASURED + 6;
    let events = (all * replay::LONG_TOKENS) as f64;
    let size = format!("{:.1} M events", events / 1e6);
    let per_event =
        |sample: &Sample| sample.cpu_per_thousand() * 1000.0 / replay::LONG_TOKENS as f64;
    let what = |measure: &str| format!("{measure}, {size} by an empty store");
    Ok(vec![
        Row::beside(
            "W8",
            what("CPU to append an event"),
            "µs",
            (per_event(&last), per_event(&first)),
            Goal::RatioAtMost(1.2),
        ),
        Row::beside(
            "W8",
            what("rate of appends"),
            "events/s",
            (rate(&last), rate(&first)),
            Goal::RatioAtLeast(1.0 / 1.2),
        ),
        Row::beside(
            "W8",
            what("CPU to replay an event"),
            "µs",
            (1e6 / last_read.per_core(), 1e6 / first_read.per_core()),
            Goal::RatioAtMost(1.2),
        ),
        Row::alone(
            "W8",
            "rate of appends over all",
            "events/s",
            rate(&filling),
            Goal::Told,
        ),
        Row::alone(
            "W8",
            "stored per event",
            "bytes",
            stored / events,
            Goal::Told,
        ),
        errors(
            "W8",
            &size,
            &[&first.outcome, &filling.outcome, &last.outcome],
        ),
    ])
}

fn rate(sample: &Sample) -> f64 {
    sample.outcome.rate() * replay::LONG_TOKENS as f64
}

async fn append(target: &Target, meter: Meter, runs: u64) -> anyhow::Result<Sample> {
    let job = target.job(replay::LONG, "Say ten thousand words.", replay::LONG_TOKENS);
    if runs <= AT_ONCE {
        // Warming up.
        load(target, &job, runs, AT_ONCE).await;
        return Ok(Sample::default());
    }
    sample(target, meter, &job, runs, AT_ONCE).await
}
