//! The documents refer to what exists: links, guards of invariants, quoted messages, and a README for each crate.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::sources::{Source, assert_none, documents, repository, shipped};

/// The headings of a page as the fragments that links use.
fn fragments(text: &str) -> Vec<String> {
    let headings = without_code(text);
    headings
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| fragment(line.trim_start_matches('#').trim()))
        .collect()
}

/// A heading as GitHub turns it into a fragment: lower case, no punctuation, hyphens for spaces.
fn fragment(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// The text with its code blocks emptied.
fn without_code(text: &str) -> String {
    let blocks = text.split("```").enumerate();
    let prose = blocks.map(|(index, part)| if index % 2 == 0 { part } else { "" });
    prose.collect()
}

/// The targets of the links of a page that lead to files or headings.
fn links(text: &str) -> Vec<String> {
    let prose = without_code(text);
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .map(str::to_owned)
        .collect()
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// Why a link of a page does not work.
fn broken(page: &Source, target: &str, pages: &BTreeMap<PathBuf, Vec<String>>) -> Option<String> {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let path = if file.is_empty() {
        PathBuf::from(&page.path)
    } else {
        plain(&folder.join(file))
    };
    if !repository().join(&path).exists() {
        return Some(format!("{}: {target} does not exist", page.path));
    }
    let headings = pages.get(&path)?;
    let known = fragment.is_empty() || headings.iter().any(|heading| heading == fragment);
    (!known).then(|| format!("{}: {target} names no heading", page.path))
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = documents();
    let headings = pages
        .iter()
        .map(|page| (PathBuf::from(&page.path), fragments(&page.text)))
        .collect();
    let mut violations = Vec::new();
    for page in &pages {
        let targets = links(&page.text);
        violations.extend(
            targets
                .iter()
                .filter_map(|target| broken(page, target, &headings)),
        );
    }
    assert_none("correct these links", &violations);
}

/// The texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A page of the repository.
fn page(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).expect("the page can be read")
}

/// The cells of the rows of every table of a page, headings left out.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    lines
        .filter(|line| !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

/// The paths of the repository that a page names in backquotes. A path with `example` in it stands for what a reader
/// would create.
fn named_paths(text: &str) -> Vec<String> {
    const ROOTS: [&str; 6] = [
        "crates/",
        "xtask/",
        "bench/",
        "fuzz/",
        "interop/",
        "packaging/",
    ];
    let prose = without_code(text);
    let plain =
        |text: &&str| !text.contains("example") && !text.contains(['{', '*', '<', ' ', '…']);
    let named = quoted(&prose).filter(|text| ROOTS.iter().any(|root| text.starts_with(root)));
    named.filter(plain).map(str::to_owned).collect()
}

/// Decisions describe the tree of their time, so their paths are not checked.
#[test]
fn paths_in_documents_exist() {
    let mut missing = Vec::new();
    for page in documents() {
        if page.path.starts_with("docs/decisions/") {
            continue;
        }
        let lost = named_paths(&page.text).into_iter();
        let lost = lost.filter(|path| !repository().join(path).exists());
        missing.extend(lost.map(|path| format!("{}: {path}", page.path)));
    }
    assert_none("these paths do not exist", &missing);
}

#[test]
fn guards_of_invariants_exist() {
    let text = page("docs/invariants.md");
    let rows = rows(&text);
    assert!(rows.len() > 40, "{}", rows.len());
    let mut missing = Vec::new();
    for row in rows.iter().filter(|row| row.get(1) != Some(&"guard")) {
        let guards: Vec<&str> = row.get(1).map_or(Vec::new(), |cell| quoted(cell).collect());
        if guards.is_empty() {
            missing.push(format!("{:?} has no guard", row.first()));
        }
        let lost = guards
            .iter()
            .filter(|path| !repository().join(path).exists());
        missing.extend(lost.map(|path| format!("{path} does not exist")));
    }
    assert_none("name the test that guards each invariant", &missing);
}

/// The fixed parts of a quoted message; `…` stands for what varies.
fn fixed_parts(message: &str) -> impl Iterator<Item = &str> {
    let parts = message
        .split('…')
        .map(|part| part.trim_matches([' ', ',', ':']));
    parts.filter(|part| part.chars().count() > 3)
}

#[test]
fn messages_of_the_troubleshooting_page_are_in_the_code() {
    let text = page("docs/troubleshooting.md");
    let sources: Vec<String> = shipped()
        .into_iter()
        .map(|source| joined(&source.text))
        .collect();
    let mut unknown = Vec::new();
    for row in rows(&text) {
        let symptom = row.first().copied().unwrap_or_default();
        for part in quoted(symptom).flat_map(fixed_parts) {
            if !sources.iter().any(|source| source.contains(part)) {
                unknown.push(format!("{part:?} in the row {symptom:?}"));
            }
        }
    }
    assert_none("quote messages as the code writes them", &unknown);
}

/// A source with its continued string literals on one line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        joined.push_str(part.trim_start());
    }
    joined
}

#[test]
fn each_crate_has_a_readme_of_one_screen() {
    let crates = std::fs::read_dir(repository().join("crates")).expect("crates/ can be read");
    let mut violations = Vec::new();
    for entry in crates {
        let folder = entry.expect("crates/ can be read").path();
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let lines = readme.lines().count();
        if !(5..=60).contains(&lines) {
            violations.push(format!(
                "{} has {lines} lines",
                folder.join("README.md").display()
            ));
        }
    }
    assert_none(
        "purpose, limits, entry points and tests of each crate",
        &violations,
    );
}

#[test]
fn finds_broken_links_and_unknown_messages() {
    let page = Source {
        path: "docs/glossary.md".to_owned(),
        text: "# One `thing`\n[x](../README.md) [y](none.md) [z](#one-thing) [w](#two)\n```\n[v](no.md)\n```\n"
            .to_owned(),
    };
    let pages = BTreeMap::from([(PathBuf::from("docs/glossary.md"), fragments(&page.text))]);
    let targets = links(&page.text);
    let found: Vec<String> = targets
        .iter()
        .filter_map(|target| broken(&page, target, &pages))
        .collect();
    assert_eq!(
        found,
        [
            "docs/glossary.md: none.md does not exist",
            "docs/glossary.md: #two names no heading"
        ]
    );
    let parts: Vec<&str> =
        fixed_parts("the database has schema version …, this program needs …").collect();
    assert_eq!(
        parts,
        ["the database has schema version", "this program needs"]
    );
    let named = named_paths(
        "`crates/a.rs` `crates/example/b.rs` `runs`\n```\n`crates/c.rs`\n```\n`xtask/d`",
    );
    assert_eq!(named, ["crates/a.rs", "xtask/d"]);
    assert_eq!(joined("\"one \\\n      two\""), "\"one two\"");
    assert_eq!(
        rows("| a | b |\n| --- | --- |\n| `c` | d |\n"),
        [["a", "b"], ["`c`", "d"]]
    );
}
