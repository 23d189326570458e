//! The long form: the same load for an hour, and memory that must not grow.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::drive::{Job, Target, shoot};
use crate::outcome::Outcome;
use crate::report::{Goal, Row};
use crate::say;
use crate::script::TOOL;
use crate::wire::Connection;

use super::{Bench, errors, sessions};

const PLAIN: &str = "bench-t50";
const CALLING: &str = "bench-t50-call";
const TOKENS: u64 = 50;
const PROMPT: &str = "Say fifty words about keeping a log.";

/// Clients of each sort.
const PLAIN_CLIENTS: usize = 8;
const CALLING_CLIENTS: usize = 4;
const TALKING_CLIENTS: usize = 4;

/// Messages of a session before its client opens another.
const MESSAGES: usize = 30;

/// Readings of memory, evenly over the time; the first fifth is for caches to fill.
const READINGS: u32 = 100;

/// Resident memory, read while the load goes on.
struct Watched {
    readings: Vec<f64>,
    outcome: Outcome,
}

/// Runs for so many minutes.
pub(super) async fn measure(bench: &Bench, minutes: u64) -> anyhow::Result<Vec<Row>> {
    let server = bench.server("steady", &[PLAIN, CALLING])?;
    let length = Duration::from_secs(minutes * 60);
    let clients = clients(&server.target, Instant::now() + length);
    let meter = server.running.meter();
    let mut readings = Vec::new();
    for number in 1..=READINGS {
        tokio::time::sleep(length / READINGS).await;
        readings.push(meter.resident()? / f64::from(1 << 20));
        if number % 10 == 0 {
            let now = readings.last().copied().unwrap_or_default();
            say(&format!("   {number} % of {minutes} min: {now:.0} MiB"));
        }
    }
    let watched = Watched {
        readings,
        outcome: crate::drive::gather(clients).await,
    };
    bench.place.clear("steady");
    Ok(judged(&watched, minutes))
}

fn judged(watched: &Watched, minutes: u64) -> Vec<Row> {
    let fifth = watched.readings.len() / 5;
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let early = most(&watched.readings[fifth..2 * fifth]);
    let late = most(&watched.readings[4 * fifth..]);
    let runs = watched.outcome.shots.len() as f64;
    let what = format!("memory in the last fifth of {minutes} min by the second");
    vec![
        Row::beside("steady", what, "MiB", (late, early), Goal::RatioAtMost(1.1)),
        Row::alone("steady", "runs", "runs", runs, Goal::Told),
        errors("steady", "all sorts", &[&watched.outcome]),
    ]
}

/// Sixteen clients that go on until the time is over.
fn clients(target: &Target, until: Instant) -> JoinSet<Outcome> {
    let mut clients = JoinSet::new();
    let plain = target.job(PLAIN, PROMPT, TOKENS);
    let tools = json!({"tools": [{"kind": "mantyx", "id": TOOL}]});
    let calling = target.run_of(CALLING, PROMPT, tools, TOKENS);
    let fixed = std::iter::repeat_n(plain, PLAIN_CLIENTS)
        .chain(std::iter::repeat_n(calling, CALLING_CLIENTS));
    for job in fixed {
        clients.spawn_local(repeat(target.clone(), job, until));
    }
    for _ in 0..TALKING_CLIENTS {
        clients.spawn_local(talk(target.clone(), until));
    }
    clients
}

async fn repeat(target: Target, job: Job, until: Instant) -> Outcome {
    let mut outcome = Outcome::default();
    let mut connection = Connection::new(target.address());
    while Instant::now() < until {
        outcome.count(shoot(&target, &job, &mut connection).await);
    }
    outcome
}

async fn talk(target: Target, until: Instant) -> Outcome {
    let mut outcome = Outcome::default();
    let mut connection = Connection::new(target.address());
    while Instant::now() < until {
        match sessions::session(&target, &mut connection).await {
            Err(error) => outcome.count(Err(error)),
            Ok(job) => {
                for _ in 0..MESSAGES {
                    outcome.count(shoot(&target, &job, &mut connection).await);
                }
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn verdict(readings: impl Iterator<Item = f64>) -> Verdict {
        let watched = Watched {
            readings: readings.collect(),
            outcome: Outcome::default(),
        };
        judged(&watched, 60)[0].verdict()
    }

    #[test]
    fn memory_that_settles_passes_and_memory_that_grows_does_not() {
        let settles = (0..100).map(|at| f64::from(at.min(20)) + 100.0);
        assert_eq!(verdict(settles), Verdict::Pass);
        let grows = (0..100).map(|at| f64::from(at) + 100.0);
        assert_eq!(verdict(grows), Verdict::Miss);
    }
}
