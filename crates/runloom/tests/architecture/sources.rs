//! The repository's Rust files and documents, read once per test.

use std::path::{Path, PathBuf};

/// One Rust file.
pub(crate) struct Source {
    /// Its path from the repository's root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The lines that ship, with their numbers: without comments, declarations of test modules, and the inline tests
    /// at the end of the file.
    pub(crate) fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut lines = self.text.lines().enumerate().peekable();
        std::iter::from_fn(move || {
            loop {
                let (index, line) = lines.next()?;
                let trimmed = line.trim_start();
                if trimmed.starts_with("#[cfg(test)]") {
                    while lines
                        .next_if(|(_, line)| line.trim_start().starts_with("#["))
                        .is_some()
                    {}
                    lines.next_if(|(_, line)| line.trim_end().ends_with(';'))?;
                } else if !trimmed.starts_with("//") {
                    return Some((index + 1, line));
                }
            }
        })
    }

    /// The file's name without its ending.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// Whether the file holds nothing but tests.
    pub(crate) fn is_tests(&self) -> bool {
        self.stem() == "tests" || self.stem().ends_with("_tests") || self.path.contains("/tests/")
    }
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/ of the repository")
        .to_path_buf()
}

/// Every Rust file below the folder, which is named from the repository's root. A room that is
/// not built yet has no files, and no rule to break.
pub(crate) fn below(folder: &str) -> Vec<Source> {
    read(folder, "rs")
}

/// Every Markdown file of the repository.
pub(crate) fn documents() -> Vec<Source> {
    with_ending("md")
}

/// Every file of the repository with this ending.
pub(crate) fn with_ending(ending: &str) -> Vec<Source> {
    read("", ending)
}

fn read(folder: &str, ending: &str) -> Vec<Source> {
    let root = repository();
    let mut found = Vec::new();
    collect(&root, &root.join(folder), ending, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Every Rust file that ships: the crates' sources and the chores.
pub(crate) fn shipped() -> Vec<Source> {
    let crates = std::fs::read_dir(repository().join("crates")).expect("crates/ can be read");
    let mut found = below("xtask/src");
    for entry in crates {
        let name = entry.expect("crates/ can be read").file_name();
        found.extend(below(&format!("crates/{}/src", name.to_string_lossy())));
    }
    found
}

/// Fails with every violation at once, so that one run is enough to mend them all.
pub(crate) fn assert_none(rule: &str, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{rule}:\n  {}",
        violations.join("\n  ")
    );
}

/// Folders that hold nothing of the repository: build output, packages and hidden folders.
fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name == "target" || name == "node_modules"
}

fn collect(root: &Path, folder: &Path, ending: &str, found: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            if !is_foreign(&path) {
                collect(root, &path, ending, found);
            }
        } else if path.extension().is_some_and(|found| found == ending) {
            let text = std::fs::read_to_string(&path).expect("a source file can be read");
            let path = path
                .strip_prefix(root)
                .expect("the file lies in the repository")
                .to_string_lossy()
                .replace('\\', "/");
            found.push(Source { path, text });
        }
    }
}
