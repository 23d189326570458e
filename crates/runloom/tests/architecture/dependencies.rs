//! Who may depend on whom. Asked of cargo itself, offline, about what ships: dependencies of tests
//! do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::sources::{assert_none, repository};

const SQL: &[&str] = &["rusqlite", "tokio-postgres", "deadpool-postgres", "sqlx"];
const SERVER: &[&str] = &["axum"];
const HTTP_CLIENT: &[&str] = &["reqwest"];
const RUNTIME: &[&str] = &["tokio"];
/// Password hashing, encryption and message authentication. Plain digests (`sha2`) are not meant.
const CRYPTO: &[&str] = &["argon2", "chacha20poly1305", "hmac", "ring", "rustls"];
const ZIP: &[&str] = &["zip"];

/// One crate of the workspace.
struct Rule {
    name: &'static str,
    /// The crates of the workspace it may use itself.
    may_use: &'static [&'static str],
    /// What it must never reach, however many steps away.
    never: &'static [&'static [&'static str]],
}

const PORTS: &[&str] = &["runloom-ports", "runloom-protocol"];

const RULES: &[Rule] = &[
    Rule {
        name: "runloom-protocol",
        may_use: &[],
        never: &[RUNTIME, SERVER, SQL, HTTP_CLIENT],
    },
    Rule {
        name: "runloom-schema",
        may_use: &[],
        never: &[SERVER, SQL, HTTP_CLIENT, CRYPTO, ZIP],
    },
    Rule {
        name: "runloom-documents",
        may_use: &[],
        never: &[RUNTIME, SERVER, SQL, HTTP_CLIENT, CRYPTO],
    },
    Rule {
        name: "runloom-ports",
        may_use: &["runloom-protocol"],
        never: &[SERVER, SQL, HTTP_CLIENT, CRYPTO, ZIP],
    },
    Rule {
        name: "runloom-project",
        may_use: &["runloom-ports", "runloom-protocol", "runloom-schema"],
        never: &[SERVER, SQL, HTTP_CLIENT, CRYPTO, ZIP],
    },
    Rule {
        name: "runloom-engine",
        may_use: &["runloom-ports", "runloom-protocol", "runloom-schema"],
        never: &[SERVER, SQL, HTTP_CLIENT, CRYPTO, ZIP],
    },
    Rule {
        name: "runloom-service",
        may_use: &[
            "runloom-documents",
            "runloom-engine",
            "runloom-ports",
            "runloom-project",
            "runloom-protocol",
            "runloom-schema",
        ],
        never: &[SERVER, SQL, HTTP_CLIENT],
    },
    Rule {
        name: "runloom-models",
        may_use: PORTS,
        never: &[SERVER, SQL],
    },
    Rule {
        name: "runloom-tools",
        may_use: &[
            "runloom-ports",
            "runloom-project",
            "runloom-protocol",
            "runloom-schema",
        ],
        never: &[SERVER, SQL],
    },
    Rule {
        name: "runloom-store",
        may_use: PORTS,
        never: &[SERVER, HTTP_CLIENT],
    },
    Rule {
        name: "runloom-fabric",
        may_use: PORTS,
        never: &[SERVER, SQL],
    },
    Rule {
        name: "runloom-http",
        may_use: &[
            "runloom-engine",
            "runloom-ports",
            "runloom-protocol",
            "runloom-service",
        ],
        never: &[SQL, HTTP_CLIENT],
    },
    Rule {
        name: "runloom-client",
        may_use: &["runloom-protocol"],
        never: &[SERVER, SQL],
    },
    Rule {
        name: "runloom-agents",
        may_use: &[
            "runloom-engine",
            "runloom-models",
            "runloom-ports",
            "runloom-protocol",
            "runloom-schema",
        ],
        never: &[SERVER, SQL],
    },
    Rule {
        name: "runloom",
        may_use: &[
            "runloom-client",
            "runloom-engine",
            "runloom-fabric",
            "runloom-http",
            "runloom-models",
            "runloom-ports",
            "runloom-project",
            "runloom-protocol",
            "runloom-schema",
            "runloom-service",
            "runloom-store",
            "runloom-tools",
        ],
        never: &[],
    },
    Rule {
        name: "runloom-bench",
        may_use: &["runloom-models", "runloom-ports", "runloom-protocol"],
        never: &[SQL],
    },
    Rule {
        name: "xtask",
        may_use: &[],
        never: &[RUNTIME, SERVER, SQL, HTTP_CLIENT],
    },
];

/// What ships with what, by name. Two versions of a package count as one.
struct Graph {
    members: BTreeSet<String>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read() -> Self {
        let metadata = cargo_metadata();
        let names: BTreeMap<&str, &str> = list(&metadata["packages"])
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let members = list(&metadata["workspace_members"])
            .map(|id| names[text(id)].to_owned())
            .collect();
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let used = uses.entry(names[text(&node["id"])].to_owned()).or_default();
            used.extend(
                list(&node["deps"])
                    .filter(|dependency| ships(dependency))
                    .map(|dependency| names[text(&dependency["pkg"])].to_owned()),
            );
        }
        Self { members, uses }
    }

    fn used_by(&self, name: &str) -> impl Iterator<Item = &str> {
        self.uses
            .get(name)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// The way from one package to another, as a reader would write it down.
    fn way(&self, from: &str, to: &str) -> Option<String> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut waiting = vec![from];
        while let Some(here) = waiting.pop() {
            for next in self.used_by(here) {
                if next == from || came_from.contains_key(next) {
                    continue;
                }
                came_from.insert(next, here);
                waiting.push(next);
            }
        }
        let mut way = vec![to];
        let mut here = to;
        while here != from {
            here = came_from.get(here)?;
            way.push(here);
        }
        way.reverse();
        Some(way.join(" → "))
    }
}

/// Whether a dependency is there outside tests.
fn ships(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("cargo metadata has a text here")
}

/// Filtered by this machine's platform: only those packages are sure to be downloaded, and the
/// test must not go to the network.
fn cargo_metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = run(Command::new(&cargo).arg("-vV"));
    let version = String::from_utf8(version).expect("cargo -vV prints text");
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("cargo -vV names its host");
    let json = run(Command::new(&cargo)
        .current_dir(repository())
        .args(["metadata", "--format-version=1", "--offline"])
        .args(["--filter-platform", host]));
    serde_json::from_slice(&json).expect("cargo metadata prints JSON")
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("cargo can be started");
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn crates_have_rules() {
    let ruled: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    let violations: Vec<String> = Graph::read()
        .members
        .iter()
        .filter(|member| !ruled.contains(member.as_str()))
        .map(|member| format!("{member} has no row in RULES"))
        .collect();
    assert_none("say first what a new crate may use", &violations);
}

#[test]
fn crates_depend_downwards_only() {
    let graph = Graph::read();
    let mut violations = Vec::new();
    for rule in RULES {
        for used in graph.used_by(rule.name) {
            if graph.members.contains(used) && !rule.may_use.contains(&used) {
                violations.push(format!("{} must not use {used}", rule.name));
            }
        }
    }
    assert_none("adapters do not know each other", &violations);
}

#[test]
fn crates_avoid_forbidden_dependencies() {
    let graph = Graph::read();
    let mut violations = Vec::new();
    for rule in RULES {
        for forbidden in rule.never.iter().copied().flatten() {
            violations.extend(graph.way(rule.name, forbidden));
        }
    }
    assert_none("these ways must not exist", &violations);
}

#[test]
fn follows_indirect_dependencies() {
    let uses = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let graph = Graph {
        members: BTreeSet::new(),
        uses: BTreeMap::from([
            ("a".to_owned(), uses(&["b"])),
            ("b".to_owned(), uses(&["c", "a"])),
            ("d".to_owned(), uses(&["c"])),
        ]),
    };
    assert_eq!(graph.way("a", "c").as_deref(), Some("a → b → c"));
    assert_eq!(graph.way("a", "d"), None);
}

#[test]
fn real_graph_is_not_empty() {
    let graph = Graph::read();
    assert!(graph.way("runloom", "axum").is_some());
    assert!(graph.way("runloom-protocol", "serde").is_some());
}
