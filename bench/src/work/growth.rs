//! W8: whether the ten millionth event costs what the first did, to write and to read.

use crate::report::{Goal, Row};
use crate::server::Server;

use super::replay::{self, Replay};
use super::{Bench, Sample, errors, sample};

/// Name of the server, whose store the start with a large log uses afterwards.
pub(super) const NAME: &str = "w8";

/// Name of the one beside it.
const EMPTY: &str = "w8-empty";

/// Runs of 10,000 events.
const RUNS: u64 = 1_000;
/// An empty store and the large one take turns, so that a busy moment of the machine hits both.
const ROUNDS: u64 = 5;
const RUNS_MEASURED: u64 = 50;
const WARM_UP: u64 = 4;
const AT_ONCE: u64 = 4;
/// Many: the kernel counts CPU in hundredths of a second, and fifty replays are ten of them.
const REPLAYS: u64 = 500;

/// What one of the two stores costs.
#[derive(Debug, Default)]
struct Cost {
    append: Sample,
    read: Replay,
}

impl Cost {
    async fn round(&mut self, server: &Server) -> anyhow::Result<()> {
        self.append
            .add(append(server, RUNS_MEASURED / ROUNDS).await?);
        let meter = server.running.meter();
        let read = replay::long_run(&server.target, meter, REPLAYS / ROUNDS).await?;
        self.read.add(read);
        Ok(())
    }
}

/// W8.
pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let server = bench.server(NAME, &[replay::LONG])?;
    let runs = bench.effort.of(RUNS);
    let filling = append(&server, runs).await?;
    let beside = bench.server(EMPTY, &[replay::LONG])?;
    append(&beside, WARM_UP).await?;
    let (mut first, mut last) = (Cost::default(), Cost::default());
    for _ in 0..ROUNDS {
        first.round(&beside).await?;
        last.round(&server).await?;
    }
    drop(beside);
    bench.place.clear(EMPTY);
    let stored = bench.place.store(NAME).metadata()?.len() as f64;
    let all = runs + RUNS_MEASURED + ROUNDS;
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
            (per_event(&last.append), per_event(&first.append)),
            Goal::RatioAtMost(1.2),
        ),
        Row::beside(
            "W8",
            what("rate of appends"),
            "events/s",
            (rate(&last.append), rate(&first.append)),
            Goal::RatioAtLeast(1.0 / 1.2),
        ),
        Row::beside(
            "W8",
            what("CPU to replay an event"),
            "µs",
            (1e6 / last.read.per_core(), 1e6 / first.read.per_core()),
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
            &[
                &first.append.outcome,
                &filling.outcome,
                &last.append.outcome,
            ],
        ),
    ])
}

fn rate(sample: &Sample) -> f64 {
    sample.outcome.rate() * replay::LONG_TOKENS as f64
}

async fn append(server: &Server, runs: u64) -> anyhow::Result<Sample> {
    let target = &server.target;
    let job = target.job(replay::LONG, "Say ten thousand words.", replay::LONG_TOKENS);
    sample(target, server.running.meter(), &job, runs, AT_ONCE).await
}
