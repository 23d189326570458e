//! The command line.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: runloom-bench run --server BINARY [--only W1,W3] [--quick | --steady MINUTES] [--out FOLDER]
       runloom-bench provider | fan | floor PROVIDER_URL     (started by `run`)

  --server BINARY   the release build of `runloom`
  --only NAMES      workloads to run, with commas (default: all)
  --quick           a tenth of the load: for a look, not for a record
  --steady MINUTES  instead of the workloads, a mixed load for so long: does memory grow? An hour is a record
  --out FOLDER      where report.md and report.svg go (default: target/bench)";

/// Which part of a measurement this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Face {
    Run(Options),
    Provider,
    Fan,
    Floor { provider: String },
    Help,
}

/// What is measured, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) server: PathBuf,
    pub(crate) only: Vec<String>,
    pub(crate) effort: Effort,
    /// Minutes of the long form.
    pub(crate) steady: Option<u64>,
    pub(crate) out: PathBuf,
}

/// How much load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    /// A number of the full measurement, or a tenth of it.
    pub(crate) fn of(self, full: u64) -> u64 {
        match self {
            Self::Quick => (full / 10).max(1),
            Self::Full => full,
        }
    }
}

/// Reads the arguments.
pub(crate) fn read(arguments: &[String]) -> anyhow::Result<Face> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let asks = |word: &&str| ["--help", "-h"].contains(word);
    if words.first() == Some(&"help") || words.iter().any(asks) {
        return Ok(Face::Help);
    }
    match words.as_slice() {
        ["run", rest @ ..] => Ok(Face::Run(options(rest)?)),
        ["provider"] => Ok(Face::Provider),
        ["fan"] => Ok(Face::Fan),
        ["floor", provider] => Ok(Face::Floor {
            provider: (*provider).to_owned(),
        }),
        _ => anyhow::bail!("not a command: {words:?}\n\n{USAGE}"),
    }
}

fn options(words: &[&str]) -> anyhow::Result<Options> {
    let mut server = None;
    let mut only = Vec::new();
    let mut effort = Effort::Full;
    let mut steady = None;
    let mut out = PathBuf::from("target/bench");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || {
            rest.next()
                .copied()
                .ok_or_else(|| anyhow::anyhow!("{word} wants a value\n\n{USAGE}"))
        };
        match *word {
            "--server" => server = Some(PathBuf::from(value()?)),
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            "--out" => out = PathBuf::from(value()?),
            "--quick" => effort = Effort::Quick,
            "--steady" => {
                let minutes = value()?.parse().ok().filter(|minutes| *minutes > 0);
                let wrong = || anyhow::anyhow!("--steady wants a number of minutes\n\n{USAGE}");
                steady = Some(minutes.ok_or_else(wrong)?);
            }
            other => anyhow::bail!("{other:?} is not an option\n\n{USAGE}"),
        }
    }
    let server = server.ok_or_else(|| anyhow::anyhow!("--server is missing\n\n{USAGE}"))?;
    Ok(Options {
        server,
        only,
        effort,
        steady,
        out,
    })
}

#[cfg(test)]
mod tests {
    use super::{Effort, Face, read};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_workloads_and_the_effort_can_be_chosen() {
        let face = read(&words("run --server x --only W1,W3 --only decode --quick")).unwrap();
        let Face::Run(options) = face else {
            panic!("{face:?}");
        };
        assert_eq!(options.only, ["W1", "W3", "decode"]);
        assert_eq!(options.effort, Effort::Quick);
    }

    #[test]
    fn help_is_given_wherever_it_is_asked_for() {
        for line in ["help", "-h", "run --help", "run --server x --help"] {
            assert_eq!(read(&words(line)).unwrap(), Face::Help, "{line}");
        }
    }

    #[test]
    fn slips_are_refused() {
        for line in [
            "",
            "run",
            "run --server",
            "run --server x --fast",
            "run --server x --steady 0",
            "floor",
        ] {
            assert!(read(&words(line)).is_err(), "{line}");
        }
    }
}
