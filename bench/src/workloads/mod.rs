//! The workloads, one file each. A new workload is a file and a row in [`WORKLOADS`].

mod codecs;
mod fan_out;
mod first_token;
mod http_decoding;
mod log_growth;
mod parked_runs;
mod recovery;
mod replay;
mod sample;
mod sessions;
mod short_runs;
mod slow_streams;
mod steady_load;
mod tool_loop;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;

use crate::http::Connection;
use crate::options::{Effort, Options};
use crate::print_line;
use crate::process::ServerProcess;
use crate::procfs::{MachineTicks, open_files_limit};
use crate::provider::Stats;
use crate::report::{self, Goal, Row};
use crate::server::{Server, ServerLauncher};
use crate::target::Target;

pub(crate) use sample::Subject;

/// One workload.
struct Workload {
    name: &'static str,
    title: &'static str,
}

const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "W1",
        title: "short runs: one turn of 50 tokens",
    },
    Workload {
        name: "W2",
        title: "tool loop: two turns and one HTTP tool",
    },
    Workload {
        name: "W3",
        title: "time to the first token",
    },
    Workload {
        name: "W4",
        title: "slow streams: a token every 200 ms",
    },
    Workload {
        name: "W5",
        title: "sessions: the next run after many turns",
    },
    Workload {
        name: "W6",
        title: "client tools: runs park and resume",
    },
    Workload {
        name: "W7",
        title: "fan-out and replay",
    },
    Workload {
        name: "W8",
        title: "growth of the log",
    },
    Workload {
        name: "W9",
        title: "start and recovery",
    },
    Workload {
        name: "decode",
        title: "decoders, encoders and frames alone",
    },
];

/// Reported for every workload: on a shared host the machine's speed changes from minute to minute.
const STOLEN: &str = "CPU time stolen by other guests of the host";

/// What every workload needs: the provider, and a launcher of servers.
pub(crate) struct Bench {
    provider: ServerProcess,
    launcher: ServerLauncher,
    effort: Effort,
}

/// A running floor.
struct Floor {
    _process: ServerProcess,
    subject: Subject,
}

impl Bench {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let binary = std::path::absolute(&options.server)?;
        binary
            .metadata()
            .with_context(|| format!("--server: there is no file {}", binary.display()))?;
        let folder = std::path::absolute(&options.out)?.join("work");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let provider = ServerProcess::start_role(&["provider"], &folder.join("provider.log"))?;
        let launcher = ServerLauncher {
            binary,
            folder,
            provider_url: provider.url(),
        };
        Ok(Self {
            provider,
            launcher,
            effort: options.effort,
        })
    }

    /// Starts a floor. Every workload has its own, so that memory of an earlier one does not count.
    fn floor(&self) -> anyhow::Result<Floor> {
        let arguments = ["floor", &self.provider.url()];
        let process = ServerProcess::start_role(&arguments, &self.log("floor"))?;
        let subject = Subject {
            target: Target::Direct(process.address),
            processes: process.usage(),
        };
        Ok(Floor {
            _process: process,
            subject,
        })
    }

    /// Starts a server with an empty store.
    fn server(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        self.launcher.start_empty(name, models)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.launcher.folder.join(format!("{name}.log"))
    }

    async fn provider_stats(&self) -> anyhow::Result<Stats> {
        Ok(serde_json::from_slice(&self.ask_provider("/stats").await?)?)
    }

    async fn ask_provider(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let target = Target::Direct(self.provider.address);
        let mut connection = Connection::new(target.address());
        let head = connection.send(&target.get(path)).await?;
        connection.expect_body(head, 200).await
    }
}

/// Runs the workloads and writes the report.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let selected = select(&options.only)?;
    let bench = Bench::start(options)?;
    if let Some(minutes) = options.steady_minutes {
        print_line(&format!("\n== steady  mixed load for {minutes} minutes"));
        let rows = steady_load::measure(&bench, minutes).await?;
        let rows = named(rows, "steady");
        return report::write(&options.out, &rows, &conditions(options));
    }
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for workload in selected {
        let Workload { name, title } = workload;
        print_line(&format!("\n== {name}  {title}"));
        let (started, ticks) = (Instant::now(), MachineTicks::now()?);
        let mut measured = measure(name, &bench).await.unwrap_or_else(|error| {
            broken.push(*name);
            vec![Row::missing(*title, format!("{error:#}"))]
        });
        let stolen = MachineTicks::now()?.stolen_percent_since(ticks);
        measured.push(Row::single(STOLEN, "%", stolen, Goal::None));
        rows.extend(named(measured, name));
        print_line(&format!("   {:.0} s", started.elapsed().as_secs_f64()));
        // After every workload, so that an interrupted benchmark leaves a report.
        report::write(&options.out, &rows, &conditions(options))?;
    }
    let file = options.out.join("report.md");
    print_line(&format!("\nreport: {}", file.display()));
    anyhow::ensure!(
        broken.is_empty(),
        "these workloads could not be measured: {}",
        broken.join(", ")
    );
    Ok(())
}

/// The workloads with these names, or all.
fn select(only: &[String]) -> anyhow::Result<Vec<&'static Workload>> {
    let find = |name: &String| {
        WORKLOADS
            .iter()
            .find(|workload| workload.name.eq_ignore_ascii_case(name))
            .with_context(|| {
                let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
                format!(
                    "--only: unknown workload {name:?}; there are {}",
                    names.join(", ")
                )
            })
    };
    if only.is_empty() {
        return Ok(WORKLOADS.iter().collect());
    }
    only.iter().map(find).collect()
}

async fn measure(name: &str, bench: &Bench) -> anyhow::Result<Vec<Row>> {
    match name {
        "W1" => short_runs::measure(bench).await,
        "W2" => tool_loop::measure(bench).await,
        "W3" => first_token::measure(bench).await,
        "W4" => slow_streams::measure(bench).await,
        "W5" => sessions::measure(bench).await,
        "W6" => parked_runs::measure(bench).await,
        "W7" => fan_out::measure(bench).await,
        "W8" => log_growth::measure(bench).await,
        "W9" => recovery::measure(bench).await,
        "decode" => http_decoding::measure(bench).await,
        other => anyhow::bail!("workload {other} has no function"),
    }
}

/// Names the rows' workload and prints them.
fn named(rows: Vec<Row>, workload: &'static str) -> Vec<Row> {
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| row.of_workload(workload))
        .collect();
    rows.iter().for_each(|row| print_line(&row.line()));
    rows
}

fn conditions(options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let effort = match options.effort {
        Effort::Quick => "a tenth of the load",
        Effort::Full => "full load",
    };
    let files = open_files_limit().unwrap_or_default();
    format!(
        "{cores} cores shared by server, provider and load generator; {effort}; at most {files} open files per process."
    )
}

#[cfg(test)]
mod tests {
    use super::select;

    #[test]
    fn selects_workloads_by_name() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let selected = select(&only).unwrap();
            selected.iter().map(|workload| workload.name).collect()
        };
        assert_eq!(names(&["w3", "Decode"]), ["W3", "decode"]);
        assert_eq!(names(&[]).first(), Some(&"W1"));
        assert!(select(&["W99".to_owned()]).is_err());
    }
}
