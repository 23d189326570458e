//! Runs one program: its output is shown as it comes, its closing line is counted, and it is
//! killed when its time is up.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::report::{self, Closing, Tally};

/// How many lines may wait to be printed before the program has to wait for the terminal.
const LINES_IN_FLIGHT: usize = 256;

/// What a program came to.
pub(crate) struct Finished {
    /// It ended by itself, with exit code 0.
    pub(crate) success: bool,
    /// The sum of the closing lines it printed, when any were looked for.
    pub(crate) counted: Tally,
}

impl Finished {
    /// As the tests it counted. A program that failed without counting a failure (it did not
    /// compile, it crashed) is one failure.
    pub(crate) fn as_tests(&self) -> Tally {
        let mut tally = self.counted;
        if !self.success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// Runs the program and shows its output; `true` when it ended well.
pub(crate) fn run(command: &mut Command, at_most: Duration) -> anyhow::Result<bool> {
    Ok(watch(command, at_most, None)?.success)
}

/// Runs the program, shows its output and counts what its closing lines say.
pub(crate) fn run_tests(
    command: &mut Command,
    at_most: Duration,
    closing: Closing,
) -> anyhow::Result<Finished> {
    watch(command, at_most, Some(closing))
}

fn watch(
    command: &mut Command,
    at_most: Duration,
    closing: Option<Closing>,
) -> anyhow::Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    let deadline = Instant::now() + at_most;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let (lines, printed) = mpsc::sync_channel(LINES_IN_FLIGHT);
    if let Some(stdout) = child.stdout.take() {
        forward(stdout, lines.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        forward(stderr, lines);
    }
    let mut counted = Tally::default();
    loop {
        match printed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                report::say(&line);
                counted += closing
                    .and_then(|closing| closing.read(&line))
                    .unwrap_or_default();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                report::complain(&format!("{name} took more than {at_most:?}: killed"));
                stop(&mut child);
                return Ok(Finished {
                    success: false,
                    counted,
                });
            }
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot learn how {name} ended"))?;
    Ok(Finished {
        success: status.success(),
        counted,
    })
}

/// Whether the program can be started and ends well; nothing is shown.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Ends a program for good; one that has already ended is no error.
pub(crate) fn stop(child: &mut Child) {
    if child.kill().is_ok() {
        child.wait().ok();
    }
}

/// Sends every line of the stream on, until it ends or nobody listens any more.
fn forward(stream: impl Read + Send + 'static, lines: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut raw = Vec::new();
        while reader
            .read_until(b'\n', &mut raw)
            .is_ok_and(|read| read > 0)
        {
            let line = String::from_utf8_lossy(&raw);
            if lines.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            raw.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::Finished;
    use crate::report::Tally;

    #[test]
    fn uncounted_failure_is_one_failure() {
        let finished = Finished {
            success: false,
            counted: Tally::default(),
        };
        assert_eq!(finished.as_tests().failed, 1);
    }

    #[test]
    fn counted_failures_are_not_counted_twice() {
        let counted = Tally {
            passed: 3,
            failed: 2,
        };
        let finished = Finished {
            success: false,
            counted,
        };
        assert_eq!(finished.as_tests(), counted);
    }
}
