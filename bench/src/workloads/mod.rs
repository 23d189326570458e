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

use crate::options::{Effort, Options};
use crate::print_line;
use crate::procfs::{MachineTicks, open_files_limit};
use crate::report::{self, Goal, Row};

use bench::{Bench, Floor};

pub(crate) use sample::Subject;

/// One workload.
struct Workload {
    name: &'static str,
    title: &'static str,
}

const WORKLOADS: [Workload; 11] = [
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
        name: "burst",
        title: "1,000 runs at once",
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

/// Runs the workloads and writes the report.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let selected = select(&options.only)?;
    let bench = Bench::start(options).await?;
    let conditions = conditions(options, &bench);
    if let Some(minutes) = options.steady_minutes {
        print_line(&format!("\n== steady  mixed load for {minutes} minutes"));
        let rows = steady_load::measure(&bench, minutes).await?;
        let rows = named(rows, "steady");
        return report::write(&options.out, &rows, &conditions);
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
        report::write(&options.out, &rows, &conditions)?;
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

/// Names the rows' workload and prints them.
fn named(rows: Vec<Row>, workload: &'static str) -> Vec<Row> {
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| row.of_workload(workload))
        .collect();
    rows.iter().for_each(|row| print_line(&row.line()));
    rows
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
         process. The provider is called with `--upstream {}`; server and floor use {}.",
        options.upstream.name(),
        bench.launcher.provider.version.alpn(),
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
