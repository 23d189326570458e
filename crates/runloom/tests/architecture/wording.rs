//! Lines of comments and documents: their length, and phrases that are no longer used.

use crate::sources::{Source, assert_none, with_ending};

/// Maximum characters of a comment or document line outside tables and code blocks.
const MAX_CHARS: usize = 120;

/// Phrases that a plain sentence does without, in lower case. `*` stands for any words between two parts.
const RETIRED: &[&str] = &[
    "whoever",
    "is none",
    "so many",
    "of one's own",
    "what is told",
    "what is said",
    "what is brought",
    "told again",
    "thought better",
    "the ones * the others",
    "bell",
    "doorbell",
    "purse",
    "keeper",
    "seat",
];

/// Endings of files with comments, and how a comment line begins in them.
const COMMENTED: [(&str, &str); 4] = [("rs", "//"), ("js", "//"), ("mjs", "//"), ("toml", "#")];

/// The lines that the rules are about, with their numbers.
fn prose(source: &Source) -> Vec<(usize, &str)> {
    let lines = source.text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line));
    let ending = source.path.rsplit('.').next().unwrap_or_default();
    if ending == "md" {
        return document_lines(lines);
    }
    let marker = COMMENTED.iter().find(|(known, _)| *known == ending);
    let marker = marker.map_or("//", |(_, marker)| marker);
    lines
        .filter(|(_, line)| line.trim_start().starts_with(marker))
        .collect()
}

/// Lines of a document outside code blocks.
fn document_lines<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, &'a str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in lines {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.push((number, line));
        }
    }
    found
}

fn is_table(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['/', '!', '#']);
    line.trim_start().starts_with('|')
}

fn too_long(source: &Source) -> Vec<String> {
    let is_long = |line: &str| line.chars().count() > MAX_CHARS && !is_table(line);
    prose(source)
        .into_iter()
        .filter(|(_, line)| is_long(line))
        .map(|(number, line)| {
            let count = line.chars().count();
            format!("{}:{number} has {count} characters", source.path)
        })
        .collect()
}

fn retired(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in prose(source) {
        let words = words(line);
        let phrases = RETIRED.iter().filter(|phrase| contains(&words, phrase));
        found.extend(phrases.map(|phrase| format!("{}:{number}: {phrase:?}", source.path)));
    }
    found
}

/// The words of a line in lower case, with a space around each. "There is none" is plain, unlike "it is none".
fn words(line: &str) -> String {
    let letters = line.replace('’', "'").to_lowercase();
    let words: Vec<&str> = letters
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    format!(" {} ", words.join(" ")).replace(" there is none ", " ")
}

fn contains(words: &str, phrase: &str) -> bool {
    let mut rest = words;
    phrase.split('*').map(str::trim).all(|part| {
        let part = format!(" {part} ");
        match rest.find(&part) {
            Some(at) => {
                // The next part may begin with the space that ends this one.
                rest = &rest[at + part.len() - 1..];
                true
            }
            None => false,
        }
    })
}

/// Everything with prose, except what others wrote or what lists the phrases.
fn written() -> Vec<Source> {
    let endings = COMMENTED.iter().map(|(ending, _)| *ending).chain(["md"]);
    let files = endings.flat_map(with_ending);
    files
        .filter(|source| !source.path.ends_with("architecture/wording.rs"))
        .filter(|source| !source.path.contains("/fixtures/") && !source.path.contains("/corpus/"))
        .collect()
}

fn check(rule: &str, find: fn(&Source) -> Vec<String>) {
    let violations: Vec<String> = written().iter().flat_map(find).collect();
    assert_none(rule, &violations);
}

#[test]
fn lines_are_short() {
    check("break these lines before column 120", too_long);
}

#[test]
fn retired_phrases_are_gone() {
    check(
        "say it with the noun first and the field's own term",
        retired,
    );
}

fn source(path: &str, text: &str) -> Source {
    Source {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn notices_long_lines() {
    let long = "x".repeat(MAX_CHARS);
    for (path, text) in [
        ("a.rs", format!("    /// {long}\n")),
        ("a.rs", format!("//! {long}\n")),
        ("a.js", format!("// {long}\n")),
        ("a.toml", format!("# {long}\n")),
        ("a.md", format!("{long}y\n")),
    ] {
        assert_eq!(too_long(&source(path, &text)).len(), 1, "{text}");
    }
    for (path, text) in [
        ("a.rs", format!("let text = \"{long}\";\n")),
        ("a.md", format!("| {long} |\n")),
        ("a.md", format!("```\n{long}y\n```\n{long}\n")),
        ("a.rs", format!("//! | {long} |\n")),
    ] {
        assert!(too_long(&source(path, &text)).is_empty(), "{text}");
    }
}

#[test]
fn notices_retired_phrases() {
    for (path, text) in [
        ("a.rs", "/// Whoever calls this.\n"),
        ("a.md", "A limit that is none.\n"),
        ("a.js", "// the ones wait for the others\n"),
        ("a.toml", "# rings a bell\n"),
    ] {
        assert_eq!(retired(&source(path, text)).len(), 1, "{text}");
    }
    for (path, text) in [
        ("a.rs", "/// There is none.\nlet bell = 1;\n"),
        ("a.md", "```\nbell\n```\nThe others wait for the ones.\n"),
    ] {
        assert!(retired(&source(path, text)).is_empty(), "{text}");
    }
}
