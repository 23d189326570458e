//! A load together with the CPU time of the server that served it.

use crate::load::{Volume, closed_loop};
use crate::load_result::LoadResult;
use crate::procfs::Processes;
use crate::report::{Compared, Goal, Row};
use crate::target::{RunRequest, Target};

/// The servers that are compared take turns, so that a busy moment of the machine affects all of them.
pub(super) const ROUNDS: u64 = 4;

/// A server under load and its processes.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) target: Target,
    pub(crate) processes: Processes,
}

/// A subject and the request that it is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) subject: &'a Subject,
    pub(super) request: &'a RunRequest,
}

/// A load's result and the CPU seconds of the server.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) load: LoadResult,
    pub(super) cpu: f64,
}

impl Side<'_> {
    /// Sends the load without measuring: fills pools and caches.
    pub(super) async fn warm_up(self) {
        const VOLUME: Volume = Volume {
            runs: 100,
            concurrency: 8,
        };
        closed_loop(&self.subject.target, self.request, VOLUME).await;
    }

    pub(super) async fn sample(self, volume: Volume) -> anyhow::Result<Sample> {
        let before = self.subject.processes.cpu_seconds()?;
        let load = closed_loop(&self.subject.target, self.request, volume).await;
        let cpu = self.subject.processes.cpu_seconds()? - before;
        Ok(Sample { load, cpu })
    }
}

/// Samples several sides in turns; `volume.runs` is the total of each side.
pub(super) async fn alternate<const N: usize>(
    sides: [Side<'_>; N],
    volume: Volume,
) -> anyhow::Result<[Sample; N]> {
    let round = Volume {
        runs: volume.runs / ROUNDS,
        ..volume
    };
    let mut samples: [Sample; N] = std::array::from_fn(|_| Sample::default());
    for _ in 0..ROUNDS {
        for (side, sample) in sides.into_iter().zip(&mut samples) {
            sample.merge(side.sample(round).await?);
        }
    }
    Ok(samples)
}

impl Sample {
    pub(super) fn merge(&mut self, other: Self) {
        self.load.merge(other.load);
        self.cpu += other.cpu;
    }

    /// CPU seconds per 1,000 complete runs.
    pub(super) fn cpu_per_thousand(&self) -> f64 {
        self.cpu / self.load.runs.len() as f64 * 1000.0
    }
}

/// The goals of [`compare`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Goals {
    pub(super) cpu: Goal,
    pub(super) rate: Goal,
    pub(super) p99: Goal,
}

impl Goals {
    pub(super) const NONE: Self = Self {
        cpu: Goal::None,
        rate: Goal::None,
        p99: Goal::None,
    };
}

/// CPU, rate and latency of ours and the floor's; `load` describes the load, as in "16 at once".
pub(super) fn compare(ours: &Sample, floor: &Sample, load: &str, goals: Goals) -> Vec<Row> {
    let row = |measure: &str, unit, value: fn(&Sample) -> f64, goal| {
        let figures = Compared {
            ours: value(ours),
            reference: value(floor),
        };
        Row::compared(format!("{measure}, {load}"), unit, figures, goal)
    };
    vec![
        row(
            "CPU per 1,000 runs",
            "s",
            Sample::cpu_per_thousand,
            goals.cpu,
        ),
        row(
            "runs per second",
            "runs/s",
            |sample| sample.load.runs_per_second(),
            goals.rate,
        ),
        row(
            "p99 to the terminal event",
            "ms",
            |sample| sample.load.end_ms(0.99),
            goals.p99,
        ),
        row(
            "p50 to the terminal event",
            "ms",
            |sample| sample.load.end_ms(0.5),
            Goal::None,
        ),
    ]
}

/// The number of runs that failed or were incomplete, which must be zero.
pub(super) fn failures(load: &str, results: &[&LoadResult]) -> Row {
    let failed: u64 = results.iter().map(|result| result.failed).sum();
    let errors: Vec<&str> = results
        .iter()
        .flat_map(|result| result.errors.iter().map(String::as_str))
        .collect();
    let measure = format!("failed or incomplete runs, {load}");
    Row::single(measure, "runs", failed as f64, Goal::AtMost(0.0)).note(errors.join("; "))
}
