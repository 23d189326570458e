//! `cargo xtask bench`: builds the server and the benchmark as they are shipped, and runs it.

use std::process::Command;
use std::time::Duration;

use crate::cargo::{BUILD_AT_MOST, cargo};
use crate::{place, process};

/// The benchmark takes less than 15 minutes on two cores; beyond this it hangs.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A longer steady load is a typing error.
const MAX_STEADY_MINUTES: u64 = 7 * 24 * 60;

/// Runs the benchmark with the given arguments; see `bench/README.md`. `false` when a workload could not be measured.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let packages = ["--package", "runloom", "--package", "runloom-bench"];
    // Not quiet: a build from scratch takes longer than the benchmark.
    let built = process::run(
        cargo()?.args(["build", "--profile", "dist"]).args(packages),
        BUILD_AT_MOST,
    )?;
    anyhow::ensure!(built, "the build failed");
    let target = place::target()?;
    let binaries = target.join("dist");
    let mut command = Command::new(binaries.join("runloom-bench"));
    command
        .current_dir(place::repository()?)
        .args(["run", "--server"])
        .arg(binaries.join("runloom"))
        .arg("--out")
        .arg(target.join("bench"))
        .args(arguments);
    process::run(&mut command, TIMEOUT + steady_duration(arguments))
}

/// The duration after `--steady`; the benchmark itself reports an invalid one. Twice, for two deployments.
fn steady_duration(arguments: &[String]) -> Duration {
    let mut words = arguments.iter();
    words.find(|word| *word == "--steady");
    let minutes: Option<u64> = words.next().and_then(|minutes| minutes.parse().ok());
    Duration::from_secs(2 * minutes.unwrap_or(0).min(MAX_STEADY_MINUTES) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_steady_duration_of_two_deployments() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let two_hours = Duration::from_secs(2 * 60 * 60);
        assert_eq!(steady_duration(&words("--only W1 --steady 60")), two_hours);
        for none in ["--quick", "--steady", "--steady soon"] {
            assert_eq!(steady_duration(&words(none)), Duration::ZERO, "{none}");
        }
    }
}
