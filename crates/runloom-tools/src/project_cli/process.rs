//! The child process of an action: one line of JSON in, one JSON object out, a bounded life.
//!
//! The child has a process group of its own and only descriptors 0 to 2 (all others of this process are opened with
//! close-on-exec). Nothing of its group survives the call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_project::credential_text;
use runloom_project::output::Exit;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::content::truncate;

/// Time between SIGTERM and SIGKILL.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// Maximum logged lines of standard error per minute, and bytes of one line.
const LOG_LINES_PER_MINUTE: u32 = 60;
const LOG_LINE_BYTES: usize = 1024;

/// A process to start.
pub(super) struct ChildLaunch {
    /// `module.method`, for log lines.
    pub(super) label: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) folder: PathBuf,
    /// All of its environment.
    pub(super) env: BTreeMap<String, String>,
    /// Its standard input.
    pub(super) input: String,
    /// Replaced in everything that it prints.
    pub(super) secrets: Vec<Secret>,
    pub(super) max_output_bytes: usize,
}

impl ChildLaunch {
    fn redact(&self, text: &str) -> String {
        let redacted = self
            .secrets
            .iter()
            .fold(text.to_owned(), |text, secret| secret.redact(&text));
        credential_text::redact(&redacted)
    }

    /// Takes secrets out of printed bytes: as they are, and from within the strings of JSON, which may be escaped.
    fn redact_output(&self, stdout: Vec<u8>) -> Vec<u8> {
        let Ok(text) = String::from_utf8(stdout) else {
            // Not UTF-8 is not an answer; nothing of it is used.
            return vec![0xff];
        };
        let text = self.redact(&text);
        match serde_json::from_str(&text) {
            Ok(value) => credential_text::map_texts(&value, &|text| self.redact(text))
                .to_string()
                .into_bytes(),
            Err(_) => text.into_bytes(),
        }
    }
}

/// How a child ended.
pub(super) enum ChildEnd {
    /// By itself, with what it printed, secrets replaced.
    Exited { exit: Exit, stdout: Vec<u8> },
    /// It was never started.
    NotStarted,
    /// It was stopped at the deadline.
    OutOfTime,
    /// It was stopped because it printed too much.
    TooLarge,
    /// It was stopped because the run was, or the server.
    Cancelled,
}

/// Runs a child to its end, at most until the deadline. A dropped future kills its group.
#[expect(
    clippy::too_many_lines,
    reason = "one life of a process, from start to end"
)]
pub(super) async fn run(
    launch: ChildLaunch,
    deadline: Instant,
    cancel: &CancellationToken,
    tasks: &Tasks,
) -> ChildEnd {
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .env_clear()
        .envs(&launch.env)
        .current_dir(&launch.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(action = launch.label, %error, "process of a project action cannot be started");
            return ChildEnd::NotStarted;
        }
    };
    drop(command);
    let mut group = Group::of(&child);
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return ChildEnd::NotStarted;
    };
    let (input, max) = (launch.input.clone(), launch.max_output_bytes);
    let end = {
        let answering = async {
            let (_, printed, ()) = tokio::join!(
                write(stdin, &input),
                read(stdout, max),
                log_stderr(stderr, &launch)
            );
            printed
        };
        let working = async {
            // The child may leave others behind that hold its pipes: its own exit counts.
            let mut answering = std::pin::pin!(answering);
            tokio::select! {
                printed = &mut answering => match printed {
                    Printed::All(stdout) => (Some(stdout), child.wait().await),
                    Printed::TooMuch => (None, Ok(ExitStatus::default())),
                },
                status = child.wait() => {
                    group.signal(Signal::KILL);
                    match answering.await {
                        Printed::All(stdout) => (Some(stdout), status),
                        Printed::TooMuch => (None, status),
                    }
                }
            }
        };
        tokio::select! {
            (stdout, status) = working => match (stdout, status) {
                (Some(stdout), Ok(status)) => ChildEnd::Exited {
                    exit: if status.success() { Exit::Zero } else { Exit::Failed },
                    stdout,
                },
                (None, _) => ChildEnd::TooLarge,
                (_, Err(_)) => ChildEnd::Exited { exit: Exit::Failed, stdout: Vec::new() },
            },
            () = tokio::time::sleep_until(deadline) => ChildEnd::OutOfTime,
            () = cancel.cancelled() => ChildEnd::Cancelled,
            () = tasks.shutdown.interrupted() => ChildEnd::Cancelled,
        }
    };
    match end {
        ChildEnd::Exited { exit, stdout } => {
            group.signal(Signal::KILL);
            group.finished();
            let stdout = launch.redact_output(stdout);
            ChildEnd::Exited { exit, stdout }
        }
        stopped => {
            group.finished();
            // The model need not wait for a child that takes its time to end.
            tasks.spawn("end_project_process", async move {
                terminate(child, &group).await;
            });
            stopped
        }
    }
}

/// SIGTERM to the group, SIGKILL two seconds later.
async fn terminate(mut child: Child, group: &Group) {
    group.signal(Signal::TERM);
    let _ = tokio::time::timeout(TERMINATION_GRACE, group.ended(&mut child)).await;
    group.signal(Signal::KILL);
    let _ = child.wait().await;
}

/// The process group of a child; killed when it is dropped before [`Group::finished`].
struct Group {
    id: Option<Pid>,
    kill_on_drop: bool,
}

impl Group {
    fn of(child: &Child) -> Self {
        let id = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self {
            id,
            kill_on_drop: true,
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may not exist any more.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Waits for the child. Others of its group may ignore the signal, so they get the rest of the time.
    async fn ended(&self, child: &mut Child) {
        let _ = child.wait().await;
        while self
            .id
            .is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn finished(&mut self) {
        self.kill_on_drop = false;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.kill_on_drop {
            self.signal(Signal::KILL);
        }
    }
}

/// A child that does not read its input is no failure.
async fn write(mut stdin: ChildStdin, input: &str) {
    let _ = stdin.write_all(input.as_bytes()).await;
    let _ = stdin.shutdown().await;
}

enum Printed {
    All(Vec<u8>),
    TooMuch,
}

async fn read(mut stdout: ChildStdout, max: usize) -> Printed {
    let mut printed = Vec::new();
    let mut chunk = [0_u8; 8192];
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        printed.extend_from_slice(&chunk[..count]);
        if printed.len() > max {
            return Printed::TooMuch;
        }
    }
    Printed::All(printed)
}

/// Logs standard error, up to [`LOG_LINES_PER_MINUTE`]; further lines are dropped.
async fn log_stderr(mut stderr: ChildStderr, launch: &ChildLaunch) {
    let (mut line, mut chunk) = (Vec::new(), [0_u8; 4096]);
    let mut minute = Instant::now();
    let mut logged = 0;
    let mut log = |line: &mut Vec<u8>| {
        if minute.elapsed() > Duration::from_secs(60) {
            (minute, logged) = (Instant::now(), 0);
        }
        if logged < LOG_LINES_PER_MINUTE && !line.is_empty() {
            logged += 1;
            let text = launch.redact(&String::from_utf8_lossy(line));
            let text = truncate(text.trim_end(), LOG_LINE_BYTES);
            tracing::info!(action = launch.label, "{text}");
        }
        line.clear();
    };
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        for byte in &chunk[..count] {
            match byte {
                b'\n' => log(&mut line),
                // Longer than what is logged, so that a secret at the end of a line is whole when it is replaced.
                _ if line.len() < 8 * LOG_LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    log(&mut line);
}
