//! The workloads, one file each. A new workload is a file and a row in [`WORKLOADS`].

mod bench;
mod burst;
mod codecs;
mod decoding;
mod fan_out;
mod first_token;
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

use std::time::Instant;

use anyhow::Context;

use crate::options::{Effort, Options, Store};
use crate::print_line;
use crate::procfs::{MachineTicks, open_files_limit};
use crate::report::{self, Goal, Row};
use crate::server::Deployment;

use bench::{Bench, Floor};

pub(crate) use sample::Subject;

/// One workload.
struct Workload {
    name: &'static str,
    title: &'static str,
    stores: &'static [Store],
}

const BOTH: &[Store] = &[Store::Sqlite, Store::Postgres];
const SQLITE: &[Store] = &[Store::Sqlite];

const WORKLOADS: [Workload; 11] = [
    Workload {
        name: "W1",
        title: "short runs: one turn of 50 tokens",
        stores: BOTH,
    },
    Workload {
        name: "W2",
        title: "tool loop: two turns and one HTTP tool",
        stores: BOTH,
    },
    Workload {
        name: "W3",
        title: "time to the first token",
        stores: BOTH,
    },
    Workload {
        name: "W4",
        title: "slow streams: a token every 200 ms",
        stores: BOTH,
    },
    Workload {
        name: "burst",
        title: "1,000 runs at once",
        stores: BOTH,
    },
    Workload {
        name: "W5",
        title: "sessions: the next run after many turns",
        stores: BOTH,
    },
    Workload {
        name: "W6",
        title: "client tools: runs park and resume",
        stores: SQLITE,
    },
    Workload {
        name: "W7",
        title: "fan-out and replay",
        stores: SQLITE,
    },
    Workload {
        name: "W8",
        title: "growth of the log",
        stores: SQLITE,
    },
    Workload {
        name: "W9",
        title: "start and recovery",
        stores: SQLITE,
    },
    Workload {
        name: "decode",
        title: "decoders, encoders and frames alone",
        stores: SQLITE,
    },
];

/// Reported for every workload: on a shared host the machine's speed changes from minute to minute.
const STOLEN: &str = "CPU time stolen by other guests of the host";

/// The rows of the report so far.
struct Progress {
    rows: Vec<Row>,
    /// Workloads that could not be measured.
    broken: Vec<String>,
    conditions: String,
}

/// Runs the workloads and writes the report.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let selected = select(&options.only, options.store)?;
    let mut bench = Bench::start(options).await?;
    let mut progress = Progress {
        rows: Vec::new(),
        broken: Vec::new(),
        conditions: conditions(options, &bench),
    };
    for deployment in options.store.deployments() {
        bench.deploy(*deployment);
        if let Some(minutes) = options.steady_minutes {
            print_line(&format!("\n== steady  mixed load for {minutes} minutes"));
            let rows = steady_load::measure(&bench, minutes).await?;
            progress.add("steady", *deployment, rows);
        } else {
            for workload in &selected {
                progress.measure(&bench, workload).await?;
                // After every workload, so that an interrupted benchmark leaves a report.
                report::write(&options.out, &progress.rows, &progress.conditions)?;
            }
        }
    }
    report::write(&options.out, &progress.rows, &progress.conditions)?;
    let file = options.out.join("report.md");
    print_line(&format!("\nreport: {}", file.display()));
    anyhow::ensure!(
        progress.broken.is_empty(),
        "these workloads could not be measured: {}",
        progress.broken.join(", ")
    );
    Ok(())
}

impl Progress {
    async fn measure(&mut self, bench: &Bench, workload: &Workload) -> anyhow::Result<()> {
        let Workload { name, title, .. } = workload;
        let deployment = bench.launcher.deployment;
        print_line(&format!("\n== {name}  {title}  {}", deployment.label()));
        let (started, ticks) = (Instant::now(), MachineTicks::now()?);
        let mut rows = measure(name, bench).await.unwrap_or_else(|error| {
            self.broken.push(labelled(name, deployment));
            vec![Row::missing(*title, format!("{error:#}"))]
        });
        let stolen = MachineTicks::now()?.stolen_percent_since(ticks);
        rows.push(Row::single(STOLEN, "%", stolen, Goal::None));
        self.add(name, deployment, rows);
        print_line(&format!("   {:.0} s", started.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Names the rows' workload and prints them.
    fn add(&mut self, workload: &str, deployment: Deployment, rows: Vec<Row>) {
        for row in rows {
            let row = row.of_workload(labelled(workload, deployment));
            let row = match deployment {
                Deployment::Sqlite => row,
                // The floor's goals are for SQLite; PostgreSQL is judged by SQLite.
                Deployment::PostgresSingle | Deployment::PostgresCluster => {
                    row.without_floor_goal()
                }
            };
            print_line(&row.line());
            self.rows.push(row);
        }
    }
}

fn labelled(workload: &str, deployment: Deployment) -> String {
    format!("{workload} {}", deployment.label())
        .trim_end()
        .to_owned()
}

/// The workloads with these names, or all that the store has.
fn select(only: &[String], store: Store) -> anyhow::Result<Vec<&'static Workload>> {
    let available = || {
        WORKLOADS
            .iter()
            .filter(|workload| workload.stores.contains(&store))
    };
    let find = |name: &String| {
        available()
            .find(|workload| workload.name.eq_ignore_ascii_case(name))
            .with_context(|| {
                let names: Vec<&str> = available().map(|workload| workload.name).collect();
                format!(
                    "--only: no workload {name:?} for this store; there are {}",
                    names.join(", ")
                )
            })
    };
    if only.is_empty() {
        return Ok(available().collect());
    }
    only.iter().map(find).collect()
}

async fn measure(name: &str, bench: &Bench) -> anyhow::Result<Vec<Row>> {
    match name {
        "W1" => short_runs::measure(bench).await,
        "W2" => tool_loop::measure(bench).await,
        "W3" => first_token::measure(bench).await,
        "W4" => slow_streams::measure(bench).await,
        "burst" => burst::measure(bench).await,
        "W5" => sessions::measure(bench).await,
        "W6" => parked_runs::measure(bench).await,
        "W7" => fan_out::measure(bench).await,
        "W8" => log_growth::measure(bench).await,
        "W9" => recovery::measure(bench).await,
        "decode" => decoding::measure(bench),
        other => anyhow::bail!("workload {other} has no function"),
    }
}

fn conditions(options: &Options, bench: &Bench) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let effort = match options.effort {
        Effort::Quick => "a tenth of the load",
        Effort::Full => "full load",
    };
    let files = open_files_limit().unwrap_or_default();
    format!(
        "{cores} cores shared by server, provider and load generator; {effort}; at most {files} open files per \
         process. Store: {}. The provider is called with `--upstream {}`; server and floor use {}.",
        match options.store {
            Store::Sqlite => "SQLite",
            Store::Postgres => "PostgreSQL",
        },
        options.upstream.name(),
        bench.launcher.provider.version.alpn(),
    )
}

#[cfg(test)]
mod tests {
    use super::select;
    use crate::options::Store;

    fn names(only: &[&str], store: Store) -> anyhow::Result<Vec<&'static str>> {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        let selected = select(&only, store)?;
        Ok(selected.iter().map(|workload| workload.name).collect())
    }

    #[test]
    fn selects_workloads_by_name() {
        assert_eq!(
            names(&["w3", "Decode"], Store::Sqlite).unwrap(),
            ["W3", "decode"]
        );
        assert!(names(&["W99"], Store::Sqlite).is_err());
    }

    #[test]
    fn selects_all_workloads_of_the_store() {
        assert_eq!(names(&[], Store::Sqlite).unwrap().len(), 11);
        let postgres = names(&[], Store::Postgres).unwrap();
        assert_eq!(postgres, ["W1", "W2", "W3", "W4", "burst", "W5"]);
        let error = names(&["W8"], Store::Postgres).unwrap_err().to_string();
        assert!(error.contains("W1"), "{error}");
    }
}
