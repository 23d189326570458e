//! The command line.

use std::path::PathBuf;

use crate::load::Volume;
use crate::server::Deployment;
use crate::upstream::{Endpoint, Upstream};

pub(crate) const USAGE: &str = "\
usage: runloom-bench run --server BINARY [--only W1,W3] [--upstream UPSTREAM] [--store STORE]
                         [--quick | --steady MINUTES] [--out FOLDER]
       runloom-bench provider | broadcast | floor | decode …     (started by `run`)

  --server BINARY   the build of `runloom` with the profile `dist`
  --only NAMES      workloads to run, separated by commas (default: all)
  --upstream NAME   how the provider is called:
                      https     TLS, HTTP/1.1 or HTTP/2 as the server chooses (default)
                      https-h1  TLS, only HTTP/1.1 is offered
                      https-h2  TLS, only HTTP/2 is offered
                      http      HTTP/1.1 without TLS
  --store NAME      sqlite (default), or postgres: one process, then an API process with two workers, on a database
                    that is created and dropped; RUNLOOM_TEST_POSTGRES is the URL of the PostgreSQL server
  --quick           a tenth of the load: for a look, not for a record
  --steady MINUTES  a mixed load instead of the workloads, to see whether memory grows; use 60 for a record
  --out FOLDER      folder of report.md and report.svg (default: target/bench)";

/// What this process does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Run(Options),
    Provider {
        upstream: Upstream,
        /// The CA certificate is written to this file.
        ca_file: PathBuf,
    },
    Broadcast,
    Floor(Endpoint),
    Decode {
        provider: Endpoint,
        calls: u64,
    },
    Help,
}

/// Options of `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) server: PathBuf,
    pub(crate) only: Vec<String>,
    pub(crate) effort: Effort,
    pub(crate) upstream: Upstream,
    pub(crate) store: Store,
    pub(crate) steady_minutes: Option<u64>,
    pub(crate) out: PathBuf,
}

/// The store of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    fn parse(name: &str) -> anyhow::Result<Self> {
        match name {
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            _ => anyhow::bail!("unknown store {name:?}; use sqlite or postgres"),
        }
    }

    /// The deployments that are measured on it.
    pub(crate) fn deployments(self) -> &'static [Deployment] {
        match self {
            Self::Sqlite => &[Deployment::Sqlite],
            Self::Postgres => &[Deployment::PostgresSingle, Deployment::PostgresCluster],
        }
    }
}

/// How much load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    /// A number of the full load, or a tenth of it.
    pub(crate) fn scale(self, full: u64) -> u64 {
        match self {
            Self::Quick => (full / 10).max(1),
            Self::Full => full,
        }
    }

    /// Scales the number of runs, not their concurrency.
    pub(crate) fn scale_runs(self, full: Volume) -> Volume {
        Volume {
            runs: self.scale(full.runs),
            ..full
        }
    }
}

/// Parses the arguments.
pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Role> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_help = |word: &&str| ["--help", "-h"].contains(word);
    if words.first() == Some(&"help") || words.iter().any(is_help) {
        return Ok(Role::Help);
    }
    match words.as_slice() {
        ["run", rest @ ..] => Ok(Role::Run(parse_options(rest)?)),
        ["provider", upstream, ca_file] => Ok(Role::Provider {
            upstream: Upstream::parse(upstream)?,
            ca_file: ca_file.into(),
        }),
        ["broadcast"] => Ok(Role::Broadcast),
        ["floor", url, version, ca_file] => {
            Ok(Role::Floor(Endpoint::parse(url, version, ca_file)?))
        }
        ["decode", url, version, ca_file, calls] => Ok(Role::Decode {
            provider: Endpoint::parse(url, version, ca_file)?,
            calls: calls.parse()?,
        }),
        _ => anyhow::bail!("unknown command {words:?}\n\n{USAGE}"),
    }
}

fn parse_options(words: &[&str]) -> anyhow::Result<Options> {
    let mut server = None;
    let mut only = Vec::new();
    let mut effort = Effort::Full;
    let mut upstream = Upstream::Https;
    let mut store = Store::Sqlite;
    let mut steady_minutes = None;
    let mut out = PathBuf::from("target/bench");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || {
            rest.next()
                .copied()
                .ok_or_else(|| anyhow::anyhow!("{word} needs a value\n\n{USAGE}"))
        };
        match *word {
            "--server" => server = Some(PathBuf::from(value()?)),
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            "--out" => out = PathBuf::from(value()?),
            "--upstream" => upstream = Upstream::parse(value()?)?,
            "--store" => store = Store::parse(value()?)?,
            "--quick" => effort = Effort::Quick,
            "--steady" => {
                let minutes = value()?.parse().ok().filter(|minutes| *minutes > 0);
                let invalid = || anyhow::anyhow!("--steady needs a number of minutes\n\n{USAGE}");
                steady_minutes = Some(minutes.ok_or_else(invalid)?);
            }
            other => anyhow::bail!("unknown option {other:?}\n\n{USAGE}"),
        }
    }
    let server = server.ok_or_else(|| anyhow::anyhow!("--server is missing\n\n{USAGE}"))?;
    Ok(Options {
        server,
        only,
        effort,
        upstream,
        store,
        steady_minutes,
        out,
    })
}

#[cfg(test)]
mod tests {
    use super::{Effort, Role, Store, parse};
    use crate::upstream::Upstream;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn parses_options_of_run() {
        let line = "run --server x --only W1,W3 --only decode --quick --upstream https-h2 --store postgres";
        let role = parse(&words(line)).unwrap();
        let Role::Run(options) = role else {
            panic!("{role:?}");
        };
        assert_eq!(options.only, ["W1", "W3", "decode"]);
        assert_eq!(options.effort, Effort::Quick);
        assert_eq!(options.upstream, Upstream::HttpsHttp2);
        assert_eq!(options.store, Store::Postgres);
    }

    #[test]
    fn measures_sqlite_and_tls_by_default() {
        let role = parse(&words("run --server x")).unwrap();
        let Role::Run(options) = role else {
            panic!("{role:?}");
        };
        assert_eq!(options.upstream, Upstream::Https);
        assert_eq!(options.store, Store::Sqlite);
    }

    #[test]
    fn shows_help_wherever_it_is_asked_for() {
        for line in ["help", "-h", "run --help", "run --server x --help"] {
            assert_eq!(parse(&words(line)).unwrap(), Role::Help, "{line}");
        }
    }

    #[test]
    fn rejects_invalid_arguments() {
        for line in [
            "",
            "run",
            "run --server",
            "run --server x --fast",
            "run --server x --steady 0",
            "run --server x --upstream ftp",
            "run --server x --store mysql",
            "floor",
        ] {
            assert!(parse(&words(line)).is_err(), "{line}");
        }
    }
}
