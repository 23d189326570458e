//! Top-level modules of a crate depend on each other in one direction: no cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, assert_none, below, repository};

/// The name under which items that a crate defines in its root file take part.
const ROOT: &str = "lib";

/// The dependencies between the top-level modules of one crate.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// A source file with its module path inside the crate.
struct Module<'a> {
    path: Vec<&'a str>,
    statements: Vec<String>,
}

/// The lines that ship; an import over several lines becomes one.
fn statements(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut import: Option<String> = None;
    for (_, line) in source.shipped_lines() {
        let is_import = import.is_some() || is_import(line);
        let joined = match import.take() {
            Some(begun) => begun + line.trim(),
            None => line.to_owned(),
        };
        if is_import && !line.contains(';') {
            import = Some(joined);
        } else {
            found.push(joined);
        }
    }
    found
}

fn is_import(line: &str) -> bool {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    line.starts_with("use ")
}

impl<'a> Module<'a> {
    fn of(source: &'a Source, folder: &str) -> Option<Self> {
        let inside = source.path.strip_prefix(folder)?.trim_start_matches('/');
        let mut path: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
        if matches!(path.last(), Some(&"mod" | &"lib" | &"main")) {
            path.pop();
        }
        Some(Self {
            path,
            statements: statements(source),
        })
    }

    fn top(&self) -> &str {
        self.path.first().copied().unwrap_or(ROOT)
    }

    /// The first segment below the crate's root of every path in the code, with `super::` resolved.
    fn paths(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for line in &self.statements {
            let mut rest = line.as_str();
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
    let parts: Vec<&str> = match path.strip_prefix('{') {
        Some(list) => split_list(list),
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

/// The parts of a list up to its closing brace; lists inside it stay whole.
fn split_list(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut begin = 0;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&list[begin..at]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

/// Items that the root file defines itself, and items that it re-exports from a module.
fn root_items<'a>(root: &'a Module<'_>) -> BTreeMap<&'a str, &'a str> {
    let mut items = BTreeMap::new();
    for line in &root.statements {
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
    let exported = root.map(root_items).unwrap_or_default();
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
fn notices_a_cycle_in_an_import_over_several_lines() {
    let sources = [
        source(
            "lib.rs",
            "#[cfg(test)]\nmod one_tests;\nmod one;\nmod two;\n",
        ),
        source(
            "one.rs",
            "use crate::{\n    three::{Three, Four},\n    two::Two,\n};\n",
        ),
        source("two.rs", "#[cfg(test)]\nmod tests;\nuse crate::one::One;\n"),
        source("three.rs", ""),
    ];
    assert_eq!(cycles(&uses(&sources, "crates/a/src")), ["one ↔ two"]);
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
