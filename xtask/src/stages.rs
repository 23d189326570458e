//! The stages, in the order in which they run. A new stage is one row in [`STAGES`].

use std::time::Instant;

use crate::report::{self, Line, Tally};
use crate::{browser, cargo, commits, interop, peers};

/// A command of the command line: which stages it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    Test,
    Lint,
}

/// One stage: what it is called, what it does, which commands run it.
pub(crate) struct Stage {
    name: &'static str,
    what: &'static str,
    suites: &'static [Suite],
    run: fn() -> anyhow::Result<Tally>,
}

/// Cheap stages come first, so that a slip shows within seconds.
const STAGES: &[Stage] = &[
    Stage {
        name: "fmt",
        what: "the code is formatted",
        suites: &[Suite::Test, Suite::Lint],
        run: cargo::format,
    },
    Stage {
        name: "clippy",
        what: "no lint fires",
        suites: &[Suite::Test, Suite::Lint],
        run: cargo::clippy,
    },
    Stage {
        name: "deny",
        what: "licences, sources and bans of the dependencies",
        suites: &[Suite::Lint],
        run: cargo::deny,
    },
    Stage {
        name: "commits",
        what: "commit subjects are `area: imperative summary` of at most 72 characters",
        suites: &[Suite::Lint],
        run: commits::subjects,
    },
    Stage {
        name: "tests",
        what: "unit, contract, architecture and server tests",
        suites: &[Suite::Test],
        run: cargo::tests,
    },
    Stage {
        name: "postgres",
        what: "the store's contract, races and outages on PostgreSQL",
        suites: &[Suite::Test],
        run: cargo::postgres,
    },
    Stage {
        name: "doctests",
        what: "the examples in the documentation",
        suites: &[Suite::Test],
        run: cargo::doctests,
    },
    Stage {
        name: "netns",
        what: "attacks on the outbound guard in a network of their own, where every attempt to connect is seen",
        suites: &[Suite::Test],
        run: cargo::netns,
    },
    Stage {
        name: "tls",
        what: "the real server against a provider behind nginx with TLS: concurrent runs, cancels, reloads, dead connections",
        suites: &[Suite::Test],
        run: cargo::tls,
    },
    Stage {
        name: "services",
        what: "the queue and the bus against a RabbitMQ and a Valkey or Redis that run here",
        suites: &[Suite::Test],
        run: cargo::services,
    },
    Stage {
        name: "cluster",
        what: "several processes of the real server on one PostgreSQL, with and without RabbitMQ and Valkey",
        suites: &[Suite::Test],
        run: cargo::cluster,
    },
    Stage {
        name: "faults",
        what: "everything dies while runs go on, short form (the long one: cargo xtask faults)",
        suites: &[Suite::Test],
        run: cargo::faults,
    },
    Stage {
        name: "interop-0.11",
        what: "mantyx-sdk 0.11.0 from PyPI against the real server",
        suites: &[Suite::Test],
        run: interop::baseline_sdk,
    },
    Stage {
        name: "interop-newest",
        what: "the newest mantyx-sdk from PyPI against the real server",
        suites: &[Suite::Test],
        run: interop::newest_sdk,
    },
    Stage {
        name: "interop-cluster",
        what: "the newest mantyx-sdk from PyPI against an API and two workers on PostgreSQL",
        suites: &[Suite::Test],
        run: interop::newest_sdk_on_cluster,
    },
    Stage {
        name: "interop-tools",
        what: "our MCP and A2A clients against the official packages",
        suites: &[Suite::Test],
        run: peers::tools,
    },
    Stage {
        name: "browser",
        what: "the dashboard and the example page in a real Chromium, against the real server",
        suites: &[Suite::Test],
        run: browser::dashboard,
    },
    Stage {
        name: "interop-hosted",
        what: "the official clients of A2A and MCP against the agents that the real server offers",
        suites: &[Suite::Test],
        run: interop::hosted,
    },
    Stage {
        name: "interop-ag-ui",
        what: "the npm package @ag-ui/client (1.x and 0.0.x) and the types of ag-ui-protocol against the real server",
        suites: &[Suite::Test],
        run: interop::ag_ui,
    },
    Stage {
        name: "vendors",
        what: "what we send to model vendors, read by their own packages",
        suites: &[Suite::Test],
        run: interop::vendors,
    },
];

/// Prints every stage and what it does.
pub(crate) fn list() {
    for stage in STAGES {
        report::say(&format!("{:<16} {}", stage.name, stage.what));
    }
}

/// Runs the stages of the suite, or those of them that are named; `false` when one failed.
/// A failing stage does not keep the others from running.
pub(crate) fn run(suite: Suite, only: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        anyhow::bail!(
            "there is no stage {unknown:?}; the stages are {}",
            names.join(", ")
        );
    }
    let mut lines = Vec::new();
    for stage in chosen(suite, only) {
        report::heading(stage.name, stage.what);
        let begun = Instant::now();
        let tally = (stage.run)().unwrap_or_else(|error| {
            report::say(&format!("{}: {error:#}", stage.name));
            Tally::of_check(false)
        });
        lines.push(Line {
            stage: stage.name,
            tally,
            took: begun.elapsed(),
        });
    }
    Ok(report::summary(&lines).failed == 0)
}

fn known(name: &str) -> bool {
    STAGES.iter().any(|stage| stage.name == name)
}

/// A stage that is named runs even when the suite alone would leave it out.
fn chosen(suite: Suite, only: &[String]) -> impl Iterator<Item = &'static Stage> {
    STAGES.iter().filter(move |stage| {
        if only.is_empty() {
            stage.suites.contains(&suite)
        } else {
            only.iter().any(|name| name == stage.name)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{STAGES, Suite, chosen, run};

    #[test]
    fn stages_have_unique_names_and_commands() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(!stage.suites.is_empty(), "{} never runs", stage.name);
            assert!(
                STAGES[..index].iter().all(|other| other.name != stage.name),
                "{} is there twice",
                stage.name
            );
        }
    }

    #[test]
    fn naming_stages_replaces_the_suite() {
        let only = ["vendors".to_owned()];
        let names: Vec<&str> = chosen(Suite::Lint, &only).map(|stage| stage.name).collect();
        assert_eq!(names, ["vendors"]);
    }

    #[test]
    fn refuses_unknown_stages() {
        let error = run(Suite::Test, &["nonsense".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("interop-0.11"), "{error}");
    }
}
