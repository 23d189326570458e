//! W8: appending to and reading from a log of ten million events, compared with an empty one.

use crate::load::Volume;
use crate::report::{Compared, Goal, Row};
use crate::server::Server;

use super::Bench;
use super::replay::{LONG_RUN, Replay, replay_long_run};
use super::sample::{Sample, Side, failures};

/// Name of the server with the large log; W9 starts it again.
pub(super) const NAME: &str = "w8";

const EMPTY: &str = "w8-empty";
const EMPTY_STORE: &str = "empty store";

/// Runs of 10,000 events that fill the log.
const FILLING_RUNS: u64 = 1_000;
/// Both servers take turns, so that a busy moment of the machine affects both.
const ROUNDS: u64 = 5;
const MEASURED_RUNS: u64 = 50;
const WARM_UP_RUNS: u64 = 4;
const CONCURRENCY: u64 = 4;
/// Many, because the CPU clock has a resolution of 10 ms.
const REPLAYS: u64 = 500;

/// The cost of one server's log.
#[derive(Debug, Default)]
struct Cost {
    append: Sample,
    replay: Replay,
}

impl Cost {
    async fn add_round(&mut self, server: &Server) -> anyhow::Result<()> {
        self.append
            .merge(append(server, MEASURED_RUNS / ROUNDS).await?);
        self.replay
            .merge(replay_long_run(&server.subject, REPLAYS / ROUNDS).await?);
        Ok(())
    }

    fn cpu_per_event(&self) -> f64 {
        self.append.cpu_per_thousand() * 1000.0 / LONG_RUN.tokens as f64
    }
}

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let large = bench.server(NAME, &[LONG_RUN.model])?;
    let filling_runs = bench.effort.scale(FILLING_RUNS);
    let filling = append(&large, filling_runs).await?;
    let empty = bench.server(EMPTY, &[LONG_RUN.model])?;
    append(&empty, WARM_UP_RUNS).await?;
    let (mut empty_cost, mut large_cost) = (Cost::default(), Cost::default());
    for _ in 0..ROUNDS {
        empty_cost.add_round(&empty).await?;
        large_cost.add_round(&large).await?;
    }
    drop(empty);
    bench.launcher.clear(EMPTY);
    let stored = bench.launcher.database_file(NAME).metadata()?.len() as f64;
    let runs = filling_runs + MEASURED_RUNS + ROUNDS;
    let events = (runs * LONG_RUN.tokens) as f64;
    let mut rows = compare(&large_cost, &empty_cost, events);
    rows.extend([
        Row::single(
            "events appended per second while filling",
            "events/s",
            append_rate(&filling),
            Goal::None,
        ),
        Row::single(
            "bytes stored per event",
            "bytes",
            stored / events,
            Goal::None,
        ),
        failures(
            &millions(events),
            &[
                &empty_cost.append.load,
                &filling.load,
                &large_cost.append.load,
            ],
        ),
    ]);
    Ok(rows)
}

fn compare(large: &Cost, empty: &Cost, events: f64) -> Vec<Row> {
    let row = |measure: &str, unit, value: fn(&Cost) -> f64, goal| {
        let figures = Compared {
            ours: value(large),
            reference: value(empty),
        };
        let measure = format!("{measure}, {}", millions(events));
        Row::compared(measure, unit, figures, goal).against(EMPTY_STORE)
    };
    vec![
        row(
            "CPU to append an event",
            "µs",
            Cost::cpu_per_event,
            Goal::RatioAtMost(1.2),
        ),
        row(
            "events appended per second",
            "events/s",
            |cost| append_rate(&cost.append),
            Goal::RatioAtLeast(1.0 / 1.2),
        ),
        row(
            "CPU to replay an event",
            "µs",
            |cost| 1e6 / cost.replay.per_cpu_second(),
            Goal::RatioAtMost(1.2),
        ),
    ]
}

fn millions(events: f64) -> String {
    format!("{:.1} M events", events / 1e6)
}

fn append_rate(sample: &Sample) -> f64 {
    sample.load.runs_per_second() * LONG_RUN.tokens as f64
}

async fn append(server: &Server, runs: u64) -> anyhow::Result<Sample> {
    let request = server.subject.target.run(LONG_RUN);
    let side = Side {
        subject: &server.subject,
        request: &request,
    };
    let concurrency = CONCURRENCY;
    side.sample(Volume { runs, concurrency }).await
}
