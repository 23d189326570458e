//! Top-level modules of a crate depend on each other in one direction: no cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, assert_none, below, repository};

/// The name under which items that a crate defines in its root file take part.
const ROOT: &str = "lib";

/// Cycles that are still to be removed. The list only shrinks: a cycle that is gone must be deleted here, and no other
/// cycle is accepted.
const REMAINING: &[&str] = &[
    "crates/runloom-fabric/src: health ↔ rabbitmq ↔ valkey",
    "crates/runloom-http/src: edge ↔ error ↔ extract ↔ follow ↔ guard ↔ router ↔ routes ↔ sse",
    "crates/runloom-tools/src: a2a ↔ code ↔ definition ↔ host ↔ http ↔ mcp ↔ plugin ↔ workspace",
    "crates/runloom/src: app ↔ cli ↔ commands",
];

/// The dependencies between the top-level modules of one crate.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// A source file with its module path inside the crate.
struct Module<'a> {
    source: &'a Source,
    path: Vec<&'a str>,
}

impl<'a> Module<'a> {
    fn of(source: &'a Source, folder: &str) -> Option<Self> {
        let inside = source.path.strip_prefix(folder)?.trim_start_matches('/');
        let mut path: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
        if matches!(path.last(), Some(&"mod" | &"lib" | &"main")) {
            path.pop();
        }
        Some(Self { source, path })
    }

    fn top(&self) -> &str {
        self.path.first().copied().unwrap_or(ROOT)
    }

    /// The first segment below the crate's root of every path in the code, with `super::` resolved.
    fn paths(&self) -> Vec<&'a str> {
        let mut found = Vec::new();
        for (_, line) in self.source.shipped_lines() {
            let mut rest = line;
            while let Some(at) = rest.find("::") {
                let before = &rest[..at];
                let after = &rest[at + 2..];
                let head = before
                    .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next()
                    .unwrap_or_default();
                let starts_path = !before[..before.len() - head.len()].ends_with("::");
                if starts_path && head == "crate" {
                    found.extend(names(after));
                } else if starts_path && self.path.is_empty() && !line.starts_with("pub use ") {
                    found.push(head);
                } else if starts_path && head == "super" {
                    let mut ups = 1;
                    let mut tail = after;
                    while let Some(next) = tail.strip_prefix("super::") {
                        ups += 1;
                        tail = next;
                    }
                    if ups == self.path.len() {
                        found.extend(names(tail));
                    }
                }
                rest = after;
            }
        }
        found
    }
}

/// The first segment of a path, or all of them in a list like `{a, b::c}`.
fn names(path: &str) -> Vec<&str> {
    let list = path
        .strip_prefix('{')
        .map(|list| list.split(['}', ';']).next().unwrap_or(list));
    let parts: Vec<&str> = match list {
        Some(list) => list.split(',').collect(),
        None => vec![path],
    };
    parts
        .into_iter()
        .map(|part| {
            let part = part.trim();
            let end = part.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            end.map_or(part, |end| &part[..end])
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// Items that the root file defines itself, and items that it re-exports from a module.
fn root_items(root: &Source) -> BTreeMap<&str, &str> {
    let mut items = BTreeMap::new();
    for (_, line) in root.shipped_lines() {
        if let Some(path) = line.trim().strip_prefix("pub use ") {
            let path = path
                .trim_start_matches("crate::")
                .trim_start_matches("self::");
            if let Some((module, exported)) = path.split_once("::") {
                items.extend(names(exported).into_iter().map(|name| (name, module)));
            }
            continue;
        }
        let mut words = line
            .split_whitespace()
            .skip_while(|word| word.starts_with("pub"));
        let kind = words.next().unwrap_or_default();
        if matches!(
            kind,
            "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static"
        ) && !line.starts_with(' ')
        {
            items.extend(
                words
                    .next()
                    .and_then(|name| names(name).pop())
                    .map(|name| (name, ROOT)),
            );
        }
    }
    items
}

fn uses(sources: &[Source], folder: &str) -> Uses {
    let modules: Vec<Module<'_>> = sources
        .iter()
        .filter(|source| !source.is_tests())
        .filter_map(|source| Module::of(source, folder))
        .collect();
    let tops: BTreeSet<&str> = modules.iter().map(Module::top).collect();
    let root = modules.iter().find(|module| module.path.is_empty());
    let exported = root.map(|root| root_items(root.source)).unwrap_or_default();
    let mut uses = Uses::new();
    for module in &modules {
        for name in module.paths() {
            let target = if tops.contains(name) {
                name
            } else {
                exported.get(name).copied().unwrap_or_default()
            };
            if tops.contains(target) && target != module.top() {
                uses.entry(module.top().to_owned())
                    .or_default()
                    .insert(target.to_owned());
            }
        }
    }
    uses
}

/// The modules that can reach themselves, in groups.
fn cycles(uses: &Uses) -> Vec<String> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![from.to_owned()];
        while let Some(here) = waiting.pop() {
            for next in uses.get(&here).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    waiting.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|module| (module, reach(module))).collect();
    let mut groups = BTreeSet::new();
    for (module, seen) in &reached {
        if seen.contains(*module) {
            let group: Vec<&str> = seen
                .iter()
                .filter(|other| {
                    reached
                        .get(other)
                        .is_some_and(|back| back.contains(*module))
                })
                .map(String::as_str)
                .collect();
            groups.insert(group.join(" ↔ "));
        }
    }
    groups.into_iter().collect()
}

#[test]
fn top_level_modules_have_no_cycles() {
    let crates = std::fs::read_dir(repository().join("crates")).expect("crates/ can be read");
    let mut violations = Vec::new();
    for entry in crates {
        let name = entry.expect("crates/ can be read").file_name();
        let folder = format!("crates/{}/src", name.to_string_lossy());
        let found = cycles(&uses(&below(&folder), &folder));
        violations.extend(found.into_iter().map(|cycle| format!("{folder}: {cycle}")));
    }
    let gone: Vec<String> = REMAINING
        .iter()
        .filter(|cycle| !violations.iter().any(|found| found == *cycle))
        .map(|cycle| format!("{cycle} is gone: delete it from REMAINING"))
        .collect();
    violations.retain(|found| !REMAINING.contains(&found.as_str()));
    violations.extend(gone);
    assert_none(
        "modules of a crate are layers; move what two of them share into a third",
        &violations,
    );
}

fn source(path: &str, text: &str) -> Source {
    Source {
        path: format!("crates/a/src/{path}"),
        text: text.to_owned(),
    }
}

#[test]
fn notices_a_planted_cycle() {
    let sources = [
        source("lib.rs", "mod one;\nmod two;\npub use two::Two;\n"),
        source("one.rs", "use crate::Two;\n"),
        source("two/mod.rs", "mod part;\n"),
        source("two/part.rs", "use super::super::one::{self, One};\n"),
        source("three.rs", "// crate::one\nuse crate::two::Two;\n"),
    ];
    assert_eq!(cycles(&uses(&sources, "crates/a/src")), ["one ↔ two"]);
}

#[test]
fn notices_a_cycle_through_the_root_file() {
    let sources = [
        source(
            "lib.rs",
            "mod one;\npub struct Service {\n    one: crate::one::One,\n}\n",
        ),
        source("one.rs", "use super::Service;\n"),
    ];
    assert_eq!(cycles(&uses(&sources, "crates/a/src")), ["lib ↔ one"]);
}

#[test]
fn accepts_layers() {
    let sources = [
        source("lib.rs", "mod one;\nmod two;\n"),
        source("one.rs", "use crate::two::{Two, three::Four};\n"),
        source(
            "two/mod.rs",
            "use self::three::Four;\nuse super::two::Two;\n",
        ),
        source("two/three.rs", "use super::Two;\n"),
    ];
    assert!(cycles(&uses(&sources, "crates/a/src")).is_empty());
}
