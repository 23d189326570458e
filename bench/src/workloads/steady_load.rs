//! The steady load: mixed runs for a long time, during which memory must not grow.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::{collect, run};
use crate::load_result::LoadResult;
use crate::print_line;
use crate::report::{Compared, Goal, Row};
use crate::script::TOOL;
use crate::target::{RunRequest, Target};

use super::sample::failures;
use super::sessions::create_session;
use super::{Bench, short_runs, tool_loop};

const SHORT_RUN_CLIENTS: usize = 8;
const TOOL_LOOP_CLIENTS: usize = 4;
const SESSION_CLIENTS: usize = 4;

/// Runs of a session before its client creates another one.
const RUNS_PER_SESSION: usize = 30;

/// Memory readings at regular intervals; the first fifth is for caches to fill.
const READINGS: u32 = 100;

/// What was seen of the server.
struct Observed {
    /// Resident memory in MiB.
    readings: Vec<f64>,
    load: LoadResult,
}

pub(super) async fn measure(bench: &Bench, minutes: u64) -> anyhow::Result<Vec<Row>> {
    let models = [short_runs::PROMPT.model, tool_loop::PROMPT.model];
    let server = bench.server("steady", &models)?;
    let duration = Duration::from_secs(minutes * 60);
    let started = Instant::now();
    let clients = clients(&server.subject.target, started + duration);
    let mut readings = Vec::new();
    for number in 1..=READINGS {
        tokio::time::sleep(duration / READINGS).await;
        let mib = server.subject.processes.resident_bytes()? / f64::from(1 << 20);
        readings.push(mib);
        if number % 10 == 0 {
            print_line(&format!("   {number} % of {minutes} min: {mib:.0} MiB"));
        }
    }
    let observed = Observed {
        readings,
        load: collect(clients, started).await,
    };
    drop(server);
    bench.launcher.clear("steady");
    Ok(observed.rows(minutes))
}

impl Observed {
    fn rows(&self, minutes: u64) -> Vec<Row> {
        let fifth = self.readings.len() / 5;
        let peak = |readings: &[f64]| readings.iter().copied().fold(0.0, f64::max);
        let figures = Compared {
            ours: peak(&self.readings[4 * fifth..]),
            reference: peak(&self.readings[fifth..2 * fifth]),
        };
        let measure = format!("peak memory in the last fifth of {minutes} min");
        vec![
            Row::compared(measure, "MiB", figures, Goal::RatioAtMost(1.1)).against("second fifth"),
            Row::single("runs", "runs", self.load.runs.len() as f64, Goal::None),
            failures("mixed load", &[&self.load]),
        ]
    }
}

fn clients(target: &Target, until: Instant) -> JoinSet<LoadResult> {
    let mut clients = JoinSet::new();
    let short_run = target.run(short_runs::PROMPT);
    let tools = json!([{"kind": "mantyx", "id": TOOL}]);
    let tool_loop = target.run_with_tools(tool_loop::PROMPT, &tools);
    let requests = std::iter::repeat_n(short_run, SHORT_RUN_CLIENTS)
        .chain(std::iter::repeat_n(tool_loop, TOOL_LOOP_CLIENTS));
    for request in requests {
        clients.spawn_local(repeat_run(target.clone(), request, until));
    }
    for _ in 0..SESSION_CLIENTS {
        clients.spawn_local(use_sessions(target.clone(), until));
    }
    clients
}

async fn repeat_run(target: Target, request: RunRequest, until: Instant) -> LoadResult {
    let mut result = LoadResult::default();
    let mut connection = Connection::new(target.address());
    while Instant::now() < until {
        result.record(run(&target, &request, &mut connection).await);
    }
    result
}

async fn use_sessions(target: Target, until: Instant) -> LoadResult {
    let mut result = LoadResult::default();
    let mut connection = Connection::new(target.address());
    while Instant::now() < until {
        match create_session(&target, &mut connection).await {
            Err(error) => result.record(Err(error)),
            Ok(request) => {
                for _ in 0..RUNS_PER_SESSION {
                    result.record(run(&target, &request, &mut connection).await);
                }
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn verdict(readings: impl Iterator<Item = f64>) -> Verdict {
        let observed = Observed {
            readings: readings.collect(),
            load: LoadResult::default(),
        };
        observed.rows(60)[0].verdict()
    }

    #[test]
    fn misses_the_goal_only_when_memory_keeps_growing() {
        let settles = (0..100).map(|at| f64::from(at.min(20)) + 100.0);
        assert_eq!(verdict(settles), Verdict::Met);
        let grows = (0..100).map(|at| f64::from(at) + 100.0);
        assert_eq!(verdict(grows), Verdict::Missed);
    }
}
