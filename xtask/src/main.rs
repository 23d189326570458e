//! The project's chores: `cargo xtask test`, `lint`, `faults`, `openapi` and `bench`.
//!
//! Needs nothing but the toolchain to start: whatever a stage wants beyond that (Python
//! environments, Debian packages) the stage installs itself, below `target/xtask`.
//! Reading order: `stages` (the table), `report` (what is printed and counted), `process`
//! (running one program), then the modules of the stages: `cargo`, `python`, `node`, `server`,
//! `interop`, `browser`, `faults`; `bench` is the benchmark.

mod bench;
mod browser;
mod cargo;
mod cluster;
mod commits;
mod debian;
mod faults;
mod interop;
mod node;
mod peers;
mod place;
mod process;
mod python;
mod report;
mod server;
mod stages;

use std::process::ExitCode;

use stages::Suite;

const USAGE: &str = "\
usage: cargo xtask <command> [--only STAGE[,STAGE…]]
       cargo xtask faults [--seed N] [--minutes N] [--only FAULT[,FAULT…]] [--topology full|postgres]
       cargo xtask bench [--only WORKLOAD[,WORKLOAD…]] [--upstream https|https-h1|https-h2|http]
                         [--store sqlite|postgres] [--quick | --steady MINUTES]

commands
  test     everything: format, lints, tests, doctests, interop, vendors' packages
  lint     format, lints and commit subjects only
  faults   the fault suite in its long form, 10 minutes for each topology unless told otherwise
  openapi  writes crates/runloom-http/openapi.json anew from the types and the route table
  bench    the benchmark: an optimised build, then target/bench/report.md (see bench/README.md)
  stages   lists the stages that --only takes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Runs what the command line asks for; `false` when a stage failed.
fn dispatch(arguments: &[String]) -> anyhow::Result<bool> {
    let Some((command, rest)) = arguments.split_first() else {
        anyhow::bail!("no command given\n\n{USAGE}");
    };
    let suite = match command.as_str() {
        "test" => Suite::Test,
        "lint" => Suite::Lint,
        "bench" => return bench::run(rest),
        "openapi" => return cargo::openapi(),
        "faults" => return faults::run(rest),
        "stages" => {
            stages::list();
            return Ok(true);
        }
        "help" | "--help" | "-h" => {
            report::say(USAGE);
            return Ok(true);
        }
        other => anyhow::bail!("there is no command {other:?}\n\n{USAGE}"),
    };
    let only = only_stages(rest)?;
    stages::run(suite, &only)
}

/// The names behind `--only`; it may be given several times, with commas or without.
fn only_stages(arguments: &[String]) -> anyhow::Result<Vec<String>> {
    let mut only = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let names = if argument == "--only" {
            rest.next()
                .ok_or_else(|| anyhow::anyhow!("--only wants the name of a stage"))?
        } else if let Some(names) = argument.strip_prefix("--only=") {
            names
        } else {
            anyhow::bail!("{argument:?} is not an option here\n\n{USAGE}");
        };
        only.extend(names.split(',').map(str::to_owned));
    }
    Ok(only)
}

#[cfg(test)]
mod tests {
    use super::only_stages;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn reads_every_form_of_only() {
        let given = arguments(&["--only", "fmt,clippy", "--only=vendors"]);
        assert_eq!(only_stages(&given).unwrap(), ["fmt", "clippy", "vendors"]);
    }

    #[test]
    fn refuses_unknown_options() {
        assert!(only_stages(&arguments(&["--only"])).is_err());
        assert!(only_stages(&arguments(&["--fast"])).is_err());
    }
}
