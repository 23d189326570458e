//! Checks commit subjects: `area: imperative summary`, at most 72 characters.

use std::process::{Command, Output};

use anyhow::Context;

use crate::place;
use crate::report::{self, Tally};

/// The last commit that the rule does not apply to.
const BASE: &str = "8a0654be85c87d59c17bd2ffb45018eb26db4b13";

/// Longest subject in characters.
const SUBJECT_MAX: usize = 72;

/// Checks the subject of every commit after [`BASE`], merges excluded. A shallow clone without [`BASE`] checks the
/// commits that it has; a source tree without history checks nothing.
pub(crate) fn subjects() -> anyhow::Result<Tally> {
    let Some(range) = range()? else {
        report::say("not run: this tree does not contain the history since the rule began");
        return Ok(Tally::default());
    };
    let log = git(&["log", "--no-merges", "--format=%h %s", &range])?;
    anyhow::ensure!(
        log.status.success(),
        "git log failed: {}",
        String::from_utf8_lossy(&log.stderr)
    );
    let mut tally = Tally::default();
    for line in String::from_utf8_lossy(&log.stdout).lines() {
        let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
        let problem = problem(subject);
        if let Some(problem) = &problem {
            report::say(&format!("{commit} {subject:?}: {problem}"));
        }
        tally += Tally::of_check(problem.is_none());
    }
    Ok(tally)
}

/// The commits to check, as git names a range; `None` when the history does not reach back to [`BASE`] although it is
/// complete, or when there is no history.
fn range() -> anyhow::Result<Option<String>> {
    let base = format!("{BASE}^{{commit}}");
    if git(&["cat-file", "-e", &base])?.status.success() {
        return Ok(Some(format!("{BASE}..HEAD")));
    }
    let shallow = git(&["rev-parse", "--is-shallow-repository"])?;
    let shallow = String::from_utf8_lossy(&shallow.stdout).trim() == "true";
    Ok(shallow.then(|| "HEAD".to_owned()))
}

fn git(arguments: &[&str]) -> anyhow::Result<Output> {
    Command::new("git")
        .current_dir(place::repository()?)
        .args(arguments)
        .output()
        .context("cannot start git")
}

/// What is wrong with a subject.
fn problem(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        return Some(format!("{length} characters, at most {SUBJECT_MAX}"));
    }
    let Some((area, summary)) = subject.split_once(": ") else {
        return Some("must be `area: imperative summary`".to_owned());
    };
    let plain = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_/,".contains(letter)
    };
    if area.is_empty() || !area.chars().all(plain) {
        return Some(
            "the area must be lower case words of a-z, 0-9, `-`, `_`, `/`, `,`".to_owned(),
        );
    }
    if summary.trim().is_empty() || summary.ends_with('.') {
        return Some("the summary must not be empty or end with a full stop".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{SUBJECT_MAX, problem};

    #[test]
    fn accepts_area_and_summary() {
        for subject in [
            "store: reject writes with an old epoch",
            "docs: rewrite admin, OAuth and budgets",
            "store/sqlite: delete the redo file",
            "http,client: share the admin types",
        ] {
            assert_eq!(problem(subject), None, "{subject}");
        }
    }

    #[test]
    fn rejects_subjects_without_area_too_long_or_unfinished() {
        let long = format!("docs: {}", "x".repeat(SUBJECT_MAX));
        for subject in [
            "The map shows the rooms of the day",
            "Docs: update the code map",
            "docs:",
            "docs: ",
            ": update the code map",
            "docs: update the code map.",
            "two words: update the code map",
            &long,
        ] {
            assert!(problem(subject).is_some(), "{subject}");
        }
    }

    #[test]
    fn counts_characters_not_bytes() {
        let subject = format!("docs: {}", "é".repeat(SUBJECT_MAX - 6));
        assert_eq!(problem(&subject), None);
    }
}
