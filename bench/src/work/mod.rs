//! The workloads, one file each. A new one is its file and its row in [`WORKS`].

mod counted;
mod decode;
mod fan_out;
mod growth;
mod parked;
mod replay;
mod sessions;
mod short_runs;
mod slow_streams;
mod starts;
mod steady;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;

use crate::child::Running;
use crate::drive::{Job, Target, load};
use crate::meter::{Meter, Processors, open_files_limit};
use crate::options::{Effort, Options};
use crate::outcome::Outcome;
use crate::provider::Stats;
use crate::report::{self, Goal, Row};
use crate::say;
use crate::server::{Place, Server};
use crate::wire::Connection;

/// Name, and what it asks.
const WORKS: [(&str, &str); 10] = [
    ("W1", "short runs: one turn, 50 tokens"),
    ("W2", "tool loop: two turns and one server tool"),
    ("W3", "time to the first token"),
    ("W4", "slow streams: a token every 200 ms"),
    ("W5", "sessions: the next run after many"),
    ("W6", "client tools: runs parked, then answered"),
    ("W7", "fan-out and replay"),
    ("W8", "growth of the log"),
    ("W9", "start and recovery"),
    ("decode", "the inner loops alone"),
];

/// Told with every workload: a machine that others use as well is not the same from minute to minute.
const STOLEN: &str = "the processors' time that other guests of the host had";

/// Ours and the floor's take turns, so that a busy moment of the machine hits both.
const ROUNDS: u64 = 4;

/// What every workload needs: the provider, and the means to start the others.
pub(crate) struct Bench {
    pub(crate) provider: Running,
    pub(crate) place: Place,
    pub(crate) effort: Effort,
}

/// A load and the CPU seconds that it took the server.
#[derive(Debug, Default)]
struct Sample {
    outcome: Outcome,
    cpu: f64,
}

impl Bench {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let binary = std::path::absolute(&options.server)?;
        binary
            .metadata()
            .with_context(|| format!("there is no server at {}", binary.display()))?;
        let folder = std::path::absolute(&options.out)?.join("work");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let place = Place { binary, folder };
        let provider = Running::face(&["provider"], &place.folder.join("provider.log"))?;
        Ok(Self {
            provider,
            place,
            effort: options.effort,
        })
    }

    /// A floor of its own for a workload, so that no memory of an earlier one counts.
    fn floor(&self) -> anyhow::Result<(Running, Target)> {
        let log = self.log("floor");
        let floor = Running::face(&["floor", &self.provider.url()], &log)?;
        let target = Target::Plain(floor.address);
        Ok((floor, target))
    }

    /// A server on an empty store.
    fn server(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        self.place.fresh(name, &self.provider.url(), models)
    }

    /// A server on what an earlier one left.
    fn server_again(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        self.place.again(name, &self.provider.url(), models)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.place.folder.join(format!("{name}.log"))
    }

    /// What the provider has been asked so far.
    async fn stats(&self) -> anyhow::Result<Stats> {
        Ok(serde_json::from_slice(&self.ask_provider("/stats").await?)?)
    }

    async fn ask_provider(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let target = Target::Plain(self.provider.address);
        let mut connection = Connection::new(self.provider.address);
        let head = connection.ask(&target.get(path)).await?;
        connection.whole(head).await
    }
}

/// Runs the workloads and writes the report.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let known = |name: &String| {
        WORKS
            .iter()
            .any(|(work, _)| work.eq_ignore_ascii_case(name))
    };
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = WORKS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!(
            "there is no workload {unknown:?}; there are {}",
            names.join(", ")
        );
    }
    let bench = Bench::start(options)?;
    if let Some(minutes) = options.steady {
        say(&format!("\n== steady  {minutes} minutes of the same load"));
        let rows = steady::measure(&bench, minutes).await?;
        rows.iter().for_each(|row| say(&row.line()));
        return report::write(&options.out, &rows, &circumstances(options));
    }
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for (name, what) in WORKS {
        let wanted = |only: &String| only.eq_ignore_ascii_case(name);
        if !options.only.is_empty() && !options.only.iter().any(wanted) {
            continue;
        }
        say(&format!("\n== {name}  {what}"));
        let (begun, before) = (Instant::now(), Processors::so_far()?);
        let mut measured = perform(name, &bench).await.unwrap_or_else(|error| {
            broken.push(name);
            vec![Row::missing(name, what, format!("{error:#}"))]
        });
        let stolen = Processors::so_far()?.stolen_since(before);
        measured.push(Row::alone(name, STOLEN, "%", stolen, Goal::Told));
        for row in &measured {
            say(&row.line());
        }
        say(&format!("   took {:.0} s", begun.elapsed().as_secs_f64()));
        rows.extend(measured);
        // Written after every workload, so that a measurement that is cut short leaves what it has.
        report::write(&options.out, &rows, &circumstances(options))?;
    }
    say(&format!(
        "\nthe report is {}",
        options.out.join("report.md").display()
    ));
    anyhow::ensure!(
        broken.is_empty(),
        "these could not be measured: {}",
        broken.join(", ")
    );
    Ok(())
}

async fn perform(name: &'static str, bench: &Bench) -> anyhow::Result<Vec<Row>> {
    match name {
        "W1" => short_runs::throughput(bench).await,
        "W2" => short_runs::tool_loop(bench).await,
        "W3" => short_runs::first_token(bench).await,
        "W4" => slow_streams::measure(bench).await,
        "W5" => sessions::measure(bench).await,
        "W6" => parked::measure(bench).await,
        "W7" => fan_out::measure(bench).await,
        "W8" => growth::measure(bench).await,
        "W9" => starts::measure(bench).await,
        "decode" => decode::measure(bench).await,
        other => anyhow::bail!("{other} has no file"),
    }
}

fn circumstances(options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let effort = match options.effort {
        Effort::Quick => "a quick look with a tenth of the load",
        Effort::Full => "the full load",
    };
    let files = open_files_limit().unwrap_or_default();
    format!(
        "{cores} cores shared by server, provider and driver; {effort}; at most {files} open files per process."
    )
}

/// A load, with the server's meter read before and after.
async fn sample(
    target: &Target,
    meter: Meter,
    job: &Job,
    runs: u64,
    at_once: u64,
) -> anyhow::Result<Sample> {
    let before = meter.cpu()?;
    let outcome = load(target, job, runs, at_once).await;
    let cpu = meter.cpu()? - before;
    Ok(Sample { outcome, cpu })
}

impl Sample {
    fn add(&mut self, other: Self) {
        self.outcome.add(other.outcome);
        self.cpu += other.cpu;
    }

    /// CPU seconds per thousand complete runs.
    fn cpu_per_thousand(&self) -> f64 {
        self.cpu / self.outcome.shots.len() as f64 * 1000.0
    }
}

/// The row that no load may spoil: every run complete.
fn errors(work: &'static str, of: &str, outcomes: &[&Outcome]) -> Row {
    let failed: u64 = outcomes.iter().map(|outcome| outcome.failed).sum();
    let said: Vec<&str> = outcomes
        .iter()
        .flat_map(|outcome| outcome.errors.iter().map(String::as_str))
        .collect();
    let what = format!("runs that were not complete, {of}");
    Row::alone(work, what, "runs", failed as f64, Goal::AtMost(0.0)).noted(said.join("; "))
}
