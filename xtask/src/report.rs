//! What is printed and counted. The only file that writes to the terminal.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a command line program and this file is its mouth"
)]

use std::io::IsTerminal;
use std::ops::AddAssign;
use std::time::Duration;

/// How many checks of a stage, or of all stages, passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// The tally of a stage that is one single check.
    pub(crate) fn of_check(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// One finished stage, as the summary shows it.
pub(crate) struct Line {
    pub(crate) stage: &'static str,
    pub(crate) tally: Tally,
    pub(crate) took: Duration,
}

/// Prints a line.
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Prints a line to standard error.
pub(crate) fn complain(text: &str) {
    eprintln!("xtask: {text}");
}

/// Prints the heading of a stage.
pub(crate) fn heading(stage: &str, what: &str) {
    println!("\n=== {stage}: {what}");
}

/// Prints what every stage came to, and the sum as the last line.
pub(crate) fn summary(lines: &[Line]) -> Tally {
    let mut sum = Tally::default();
    println!("\n=== summary");
    for line in lines {
        let verdict = match line.tally {
            Tally { failed: 1.., .. } => "FAILED",
            Tally { passed: 0, .. } => "none",
            _ => "ok",
        };
        println!(
            "{verdict:<7} {:<16} {:<28} {:>7.1} s",
            line.stage,
            line.tally.to_string(),
            line.took.as_secs_f64()
        );
        sum += line.tally;
    }
    println!("{sum}");
    sum
}

/// Whether programs we start should colour their output: they write into a pipe of ours and
/// cannot see the terminal behind it.
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none()
        && std::env::var_os("CI").is_none()
}

/// Whose closing lines are counted. A program is asked for its own kind only: a failing test that
/// nextest shows brings libtest's closing line along, and must not be counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// `Summary [   0.1s] 3 tests run: 2 passed, 1 failed, 0 skipped`
    Nextest,
    /// `test result: ok. 3 passed; 0 failed; …`, once per test program
    Libtest,
    /// `3 passed, 0 failed`, and nothing else in the line
    Program,
}

impl Closing {
    /// What the line counts; `None` when it is not a closing line of this kind.
    pub(crate) fn read(self, line: &str) -> Option<Tally> {
        let line = without_colours(line);
        let line = line.trim();
        let counts = match self {
            Self::Nextest => line.strip_prefix("Summary [")?.split_once(" run: ")?.1,
            Self::Libtest => line.strip_prefix("test result: ")?.split_once(". ")?.1,
            Self::Program if line.split(' ').count() == 4 => line,
            Self::Program => return None,
        };
        let mut tally = Tally::default();
        let mut found = false;
        for part in counts.split([',', ';']) {
            let Some((number, what)) = part.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            if what.starts_with("passed") {
                tally.passed += number;
                found = true;
            } else if ["failed", "timed out", "exec failed"]
                .iter()
                .any(|bad| what.starts_with(bad))
            {
                tally.failed += number;
                found = true;
            }
        }
        found.then_some(tally)
    }
}

/// The line without its escape sequences.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            for skipped in characters.by_ref() {
                if skipped.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Closing, Tally};

    fn tally(passed: u64, failed: u64) -> Option<Tally> {
        Some(Tally { passed, failed })
    }

    #[test]
    fn reads_three_kinds_of_summaries() {
        let cases = [
            (
                Closing::Nextest,
                "     Summary [   0.012s] 12 tests run: 12 passed, 3 skipped",
                tally(12, 0),
            ),
            (
                Closing::Nextest,
                "  Summary [ 9.1s] 7/9 tests run: 4 passed (1 slow), 2 failed, 1 timed out, 0 skipped",
                tally(4, 3),
            ),
            (
                Closing::Nextest,
                "\u{1b}[32;1m Summary\u{1b}[0m [ 0.1s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m passed",
                tally(1, 0),
            ),
            (
                Closing::Libtest,
                "test result: FAILED. 5 passed; 2 failed; 0 ignored; finished in 0.00s",
                tally(5, 2),
            ),
            (Closing::Program, "31 passed, 1 failed", tally(31, 1)),
        ];
        for (closing, line, expected) in cases {
            assert_eq!(closing.read(line), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_count_as_nothing() {
        let lines = [
            "",
            "it says: 3 passed, 4 failed today",
            "PASS [ 0.1s] runloom a_test_that_passed",
            "a b c failed",
        ];
        for closing in [Closing::Nextest, Closing::Libtest, Closing::Program] {
            for line in lines {
                assert_eq!(closing.read(line), None, "{line}");
            }
        }
    }

    #[test]
    fn counts_captured_tests_once() {
        let captured = "    test result: FAILED. 0 passed; 1 failed; 0 ignored";
        assert_eq!(Closing::Nextest.read(captured), None);
    }
}
