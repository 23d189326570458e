//! The run machine is a function of its records: no async, no clock, no randomness, no I/O.

use crate::sources::{Source, assert_none, below};

/// What would make the machine depend on anything but its records, and how it looks in code.
const IMPURE: [&str; 22] = [
    "async fn",
    "async move",
    "async {",
    ".await",
    "tokio::",
    "futures_util::",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "Zoned::now",
    "ports::clock",
    "getrandom",
    "rand::",
    "now_v7",
    "new_v4",
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::thread",
    "std::process",
    "static mut",
];

fn impurities(source: &Source) -> Vec<String> {
    source
        .shipped_lines()
        .filter_map(|(number, line)| {
            IMPURE
                .iter()
                .find(|word| line.contains(*word))
                .map(|word| format!("{}:{number} uses {word}", source.path))
        })
        .collect()
}

#[test]
fn run_machine_is_pure() {
    let violations: Vec<String> = below("crates/runloom-engine/src/run")
        .iter()
        .filter(|source| !source.is_tests())
        .flat_map(impurities)
        .collect();
    assert_none(
        "a run must fold to the same state on every machine and at every time",
        &violations,
    );
}

#[test]
fn notices_a_clock_and_an_await() {
    let source = Source {
        path: "a.rs".to_owned(),
        text: "let now = Instant::now();\nstore.read().await;\n// Instant::now\nlet calm = 1;\n"
            .to_owned(),
    };
    assert_eq!(impurities(&source).len(), 2);
}
