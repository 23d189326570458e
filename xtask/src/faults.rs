//! `cargo xtask faults`: the fault suite in its long form, one topology after the other, with its progress shown.

use std::time::Duration;

use crate::report::{self, Closing};
use crate::{cargo, process};

/// Besides the faults themselves: a build, starting and judging.
const BESIDES: Duration = Duration::from_secs(100 * 60);

const USUAL_MINUTES: f64 = 10.0;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq)]
struct Options {
    seed: Option<u64>,
    minutes: Option<f64>,
    only: Option<String>,
    topology: Option<String>,
}

/// Runs the suite; `false` when something was lost.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let options = Options::parse(arguments)?;
    let minutes = options.minutes.unwrap_or(USUAL_MINUTES);
    let rounds = match options.topology.as_deref() {
        None => "suite::",
        Some("full") => "suite::with_postgres_rabbitmq_and_valkey",
        Some("postgres") => "suite::with_postgres_alone",
        Some(other) => anyhow::bail!("--topology is full or postgres, not {other:?}"),
    };
    let mut command = cargo::cargo()?;
    command
        .args(["test", "--quiet", "--workspace", "--test", "faults", "--"])
        .args([rounds, "--nocapture", "--test-threads=1"])
        .env("RUNLOOM_FAULTS_MINUTES", minutes.to_string());
    if let Some(seed) = options.seed {
        command.env("RUNLOOM_TEST_SEED", seed.to_string());
    }
    if let Some(only) = options.only {
        command.env("RUNLOOM_FAULTS_ONLY", only);
    }
    report::say(&format!("{minutes} minutes of faults for each topology"));
    let at_most = BESIDES + Duration::from_secs_f64(2.0 * 60.0 * minutes);
    let finished = process::run_tests(&mut command, at_most, Closing::Libtest)?;
    Ok(finished.as_tests().failed == 0)
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                let value = rest.next().cloned();
                value.ok_or_else(|| anyhow::anyhow!("{argument} wants a value"))
            };
            match argument.as_str() {
                "--seed" => options.seed = Some(value()?.parse()?),
                "--minutes" => {
                    let minutes: f64 = value()?.parse()?;
                    anyhow::ensure!(
                        (0.1..=1440.0).contains(&minutes),
                        "--minutes is between 0.1 and 1440"
                    );
                    options.minutes = Some(minutes);
                }
                "--only" => options.only = Some(value()?),
                "--topology" => options.topology = Some(value()?),
                other => anyhow::bail!(
                    "{other:?} is not an option of faults: --seed N, --minutes N, --only FAULT[,FAULT…], --topology full|postgres"
                ),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> anyhow::Result<Options> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn reads_options_and_refuses_mistakes() {
        let options = parse("--seed 7 --minutes 0.5 --only kill-worker,flush-all").unwrap();
        assert_eq!((options.seed, options.minutes), (Some(7), Some(0.5)));
        assert_eq!(options.only.as_deref(), Some("kill-worker,flush-all"));
        for slip in ["--seed", "--seed x", "--minutes 0", "--fast"] {
            assert!(parse(slip).is_err(), "{slip}");
        }
    }
}
