//! What a file may look like: its size, its first line, its name, and where status codes stand.

use crate::sources::{Source, assert_none, shipped};

/// A file past this is two rooms in one.
const MOST_LINES: usize = 500;

/// Files that may be longer, each with its reason. Empty, and meant to stay so.
const LONGER_BY_PERMISSION: [&str; 0] = [];

/// Names that say nothing about what is inside.
const NAMELESS: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Error statuses, as the HTTP library names them.
const ERROR_STATUSES: [&str; 16] = [
    "BAD_REQUEST",
    "UNAUTHORIZED",
    "PAYMENT_REQUIRED",
    "FORBIDDEN",
    "NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "NOT_ACCEPTABLE",
    "REQUEST_TIMEOUT",
    "CONFLICT",
    "GONE",
    "PAYLOAD_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "UNPROCESSABLE_ENTITY",
    "TOO_MANY_REQUESTS",
    "INTERNAL_SERVER_ERROR",
    "SERVICE_UNAVAILABLE",
];

fn too_long(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    let permitted = LONGER_BY_PERMISSION.contains(&source.path.as_str());
    (lines > MOST_LINES && !permitted)
        .then(|| format!("{} has {lines} lines, at most {MOST_LINES}", source.path))
}

fn undocumented(source: &Source) -> Option<String> {
    let first = source.text.lines().find(|line| !line.trim().is_empty());
    (!first.is_some_and(|line| line.starts_with("//!")))
        .then(|| format!("{} does not begin with //! and its purpose", source.path))
}

fn nameless(source: &Source) -> Option<String> {
    source
        .path
        .split('/')
        .map(|part| part.trim_end_matches(".rs"))
        .find(|part| NAMELESS.contains(part) || part.ends_with("_v2"))
        .map(|part| format!("{} is called {part:?}: name what is inside", source.path))
}

fn stray_statuses(source: &Source) -> Vec<String> {
    source
        .shipped_lines()
        .filter(|(_, line)| {
            ERROR_STATUSES
                .iter()
                .any(|status| line.contains(&format!("StatusCode::{status}")))
        })
        .map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
        .collect()
}

#[test]
fn files_are_short() {
    let violations: Vec<String> = shipped().iter().filter_map(too_long).collect();
    assert_none("split these files into rooms", &violations);
}

#[test]
fn files_begin_with_their_purpose() {
    let violations: Vec<String> = shipped().iter().filter_map(undocumented).collect();
    assert_none("a reader wants to know where he is", &violations);
}

#[test]
fn names_say_what_is_inside() {
    let violations: Vec<String> = shipped().iter().filter_map(nameless).collect();
    assert_none("these names attract everything", &violations);
}

#[test]
fn error_statuses_are_in_one_file() {
    let violations: Vec<String> = shipped()
        .iter()
        .filter(|source| source.path.starts_with("crates/runloom-http/src/"))
        .filter(|source| source.path != "crates/runloom-http/src/error.rs" && !source.is_tests())
        .flat_map(stray_statuses)
        .collect();
    assert_none(
        "the status of an error is decided in crates/runloom-http/src/error.rs",
        &violations,
    );
}

#[test]
fn notices_violations_of_file_rules() {
    let source = |path: &str, text: &str| Source {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    assert!(too_long(&source("a.rs", &"\n".repeat(MOST_LINES + 1))).is_some());
    assert!(too_long(&source("a.rs", &"\n".repeat(MOST_LINES))).is_none());
    assert!(undocumented(&source("a.rs", "\nuse std::fmt;\n//! late")).is_some());
    assert!(undocumented(&source("a.rs", "//! It is for this.\n")).is_none());
    assert!(nameless(&source("crates/x/src/helpers/mod.rs", "")).is_some());
    assert!(nameless(&source("crates/x/src/request.rs", "")).is_none());
    let stray = "StatusCode::OK;\n// StatusCode::CONFLICT\nStatusCode::CONFLICT;\n#[cfg(test)]\nStatusCode::GONE;";
    assert_eq!(stray_statuses(&source("a.rs", stray)).len(), 1);
}
