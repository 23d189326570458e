//! MCP servers that are processes on this machine: start, pipes, log output, termination with all child processes.
//!
//! A process gets a few harmless environment variables of the server and those of its plugin. A limited number of
//! lines of its standard error is logged. It runs in a process group of its own, so that a launcher (`npx`, `uvx`, a
//! shell) does not leave the real server behind.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::service::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::tasks::Tasks;
use runloom_protocol::definition::ProcessSpec;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::session::McpError;
use crate::content::truncate;

/// Environment variables that are passed on; none of them can be a credential.
const PASSED_VARIABLES: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Time between SIGTERM and SIGKILL.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Maximum logged lines of standard error per minute, and bytes of one line.
const LOG_LINES_PER_MINUTE: u32 = 60;
const LOG_LINE_BYTES: usize = 1024;

/// Maximum bytes of one message.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The transport of messages.
pub(super) type Pipe = AsyncRwTransport<RoleClient, ObservedStdout, ChildStdin>;

/// A running process; dropping it terminates it.
pub(super) struct Process {
    end: CancellationToken,
    output: watch::Receiver<()>,
    _end_on_drop: DropGuard,
}

/// Standard output that reports whenever something is read from it.
pub(super) struct ObservedStdout {
    stdout: ChildStdout,
    output: watch::Sender<()>,
}

impl AsyncRead for ObservedStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdout).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.output.send_replace(());
        }
        read
    }
}

/// A process to start, with secrets filled into its environment.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) spec: ProcessSpec,
    /// Secrets that are redacted from log lines.
    pub(crate) secrets: Vec<runloom_ports::secret::Secret>,
}

impl Launch {
    fn redact(&self, line: &str) -> String {
        let secrets = self.secrets.iter();
        secrets.fold(line.to_owned(), |line, secret| secret.redact(&line))
    }
}

impl Process {
    /// Starts the process. It is terminated when the returned value is dropped, or with the server.
    pub(super) fn start(launch: &Launch, tasks: &Tasks) -> Result<(Self, Pipe), McpError> {
        let spec = &launch.spec;
        let mut child = command(spec)
            .spawn()
            .map_err(|error| McpError::broken(format!("its process cannot be started: {error}")))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(McpError::broken("its process has no pipes"));
        };
        if let Some(stderr) = child.stderr.take() {
            let launch = launch.clone();
            tasks.spawn("mcp_process_stderr", log_stderr(stderr, launch));
        }
        let end = CancellationToken::new();
        let (ended, shutdown) = (end.clone(), tasks.shutdown.clone());
        let label = launch.spec.label.clone();
        tracing::info!(server = label, pid = child.id(), "MCP process started");
        tasks.spawn("mcp_process", async move {
            reap(child, &ended, &shutdown, &label).await;
        });
        let (sender, output) = watch::channel(());
        let stdout = ObservedStdout {
            stdout,
            output: sender,
        };
        let pipe = AsyncRwTransport::new(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
        let process = Self {
            end: end.clone(),
            output,
            _end_on_drop: end.drop_guard(),
        };
        Ok((process, pipe))
    }

    /// Waits for any output.
    pub(super) async fn output(&self) {
        let mut output = self.output.clone();
        output.mark_unchanged();
        if output.changed().await.is_err() {
            // Standard output is closed.
            std::future::pending().await
        }
    }

    /// Terminates the process now. Pending calls fail.
    pub(super) fn kill(&self) {
        self.end.cancel();
    }
}

fn command(spec: &ProcessSpec) -> Command {
    // A relative path is relative to the plugin's folder, not to the server's working directory.
    let program = match &spec.folder {
        Some(folder) if spec.command.contains('/') => folder.join(&spec.command),
        _ => spec.command.clone().into(),
    };
    let mut command = Command::new(program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(
            PASSED_VARIABLES
                .iter()
                .filter_map(|name| Some((*name, std::env::var_os(name)?))),
        )
        .envs(&spec.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    command
}

/// Waits until the process ends or must end. By then its input is closed, so that most servers exit by themselves.
async fn reap(mut child: Child, ended: &CancellationToken, shutdown: &Shutdown, label: &str) {
    let group = child
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let exited = tokio::select! {
        status = child.wait() => Some(status),
        () = ended.cancelled() => None,
        () = shutdown.interrupted() => None,
    };
    if exited.is_none() {
        signal(group, Signal::TERM);
        let waited = tokio::time::timeout(TERMINATION_GRACE, child.wait());
        let _ = shutdown.until_interrupted(waited).await;
    }
    // Kills the child processes that it left behind.
    signal(group, Signal::KILL);
    match child.wait().await {
        Ok(status) => tracing::info!(server = label, %status, "MCP process ended"),
        Err(error) => tracing::warn!(server = label, %error, "cannot wait for an MCP process"),
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // The group may not exist any more.
        let _ = kill_process_group(group, signal);
    }
}

/// Logs standard error, up to [`LOG_LINES_PER_MINUTE`]; further lines are counted and dropped.
async fn log_stderr(stderr: ChildStderr, launch: Launch) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut chunk) = (Vec::new(), [0_u8; 4096]);
    let mut minute = tokio::time::Instant::now();
    let (mut logged, mut dropped) = (0, 0_u64);
    while let Ok(read @ 1..) = reader.read(&mut chunk).await {
        for byte in &chunk[..read] {
            if *byte != b'\n' {
                if line.len() < LOG_LINE_BYTES {
                    line.push(*byte);
                }
                continue;
            }
            if minute.elapsed() > Duration::from_secs(60) {
                (minute, logged) = (tokio::time::Instant::now(), 0);
            }
            if logged < LOG_LINES_PER_MINUTE {
                logged += 1;
                let text = launch.redact(&String::from_utf8_lossy(&line));
                tracing::info!(
                    server = launch.spec.label,
                    dropped,
                    "{}",
                    truncate(text.trim_end(), LOG_LINE_BYTES)
                );
                dropped = 0;
            } else {
                dropped += 1;
            }
            line.clear();
        }
    }
}
