//! An MCP server that is a process of this machine: started, listened to, and ended with everything that it started.
//!
//! Its environment is its own: a few harmless variables of ours and what its plugin names. Its standard error goes to the log, a
//! bounded part of it. It lives in a process group, so that a launcher (`npx`, `uvx`, a shell) does not leave the real server behind.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::service::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use runloom_ports::tasks::Tasks;
use runloom_protocol::definition::ProcessSpec;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::link::Fault;
use crate::content::cut;

/// Variables that are passed on: what programs need to find themselves, and nothing that could be a credential.
const PASSED_ON: [&str; 9] = [
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

/// How long a process may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Lines of standard error that are logged in one minute, and bytes of one line.
const LOG_LINES: u32 = 60;
const LOG_LINE_BYTES: usize = 1024;

/// The longest message.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// What messages go through.
pub(super) type Pipe = AsyncRwTransport<RoleClient, Output, ChildStdin>;

/// A running process; dropping it ends it.
pub(super) struct Process {
    end: CancellationToken,
    heard: watch::Receiver<()>,
    _ends: DropGuard,
}

/// What the process says; who wants to know is told whenever it says something.
pub(super) struct Output {
    stdout: ChildStdout,
    heard: watch::Sender<()>,
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdout).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.heard.send_replace(());
        }
        read
    }
}

/// What shall run, with the environment in clear.
#[derive(Clone)]
pub(crate) struct Launch {
    /// What is started; the variables are filled in.
    pub(crate) spec: ProcessSpec,
    /// What must not get into the log.
    pub(crate) secrets: Vec<runloom_ports::secret::Secret>,
}

impl Launch {
    fn redact(&self, line: &str) -> String {
        let all = self.secrets.iter();
        all.fold(line.to_owned(), |line, secret| secret.redact(&line))
    }
}

impl Process {
    /// Starts the process. It ends with the value that is returned, or with the server.
    pub(super) fn start(launch: &Launch, tasks: &Tasks) -> Result<(Self, Pipe), Fault> {
        let spec = &launch.spec;
        let mut child = command(spec)
            .spawn()
            .map_err(|error| Fault::broken(format!("its process cannot be started: {error}")))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::broken("its process has no pipes"));
        };
        if let Some(stderr) = child.stderr.take() {
            let launch = launch.clone();
            tasks.spawn("mcp process stderr", log(stderr, launch));
        }
        let end = CancellationToken::new();
        let (ended, kill) = (end.clone(), tasks.kill.clone());
        let label = launch.spec.label.clone();
        tracing::info!(
            server = label,
            pid = child.id(),
            "an MCP process was started"
        );
        tasks.spawn("mcp process", async move {
            reap(child, &ended, &kill, &label).await;
        });
        let (says, heard) = watch::channel(());
        let output = Output {
            stdout,
            heard: says,
        };
        let pipe = AsyncRwTransport::new(output, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
        let process = Self {
            end: end.clone(),
            heard,
            _ends: end.drop_guard(),
        };
        Ok((process, pipe))
    }

    /// Waits until it says something, whatever it is.
    pub(super) async fn says_something(&self) {
        let mut heard = self.heard.clone();
        heard.mark_unchanged();
        if heard.changed().await.is_err() {
            // It will say nothing any more.
            std::future::pending().await
        }
    }

    /// Ends it now, whoever still waits for it.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}

fn command(spec: &ProcessSpec) -> Command {
    // A relative path is the plugin's own program, wherever the server works.
    let program = match &spec.folder {
        Some(folder) if spec.command.contains('/') => folder.join(&spec.command),
        _ => spec.command.clone().into(),
    };
    let mut command = Command::new(program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(
            PASSED_ON
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

/// Waits for the end of the process, or brings it about: its input is closed by then, so that most go by themselves.
async fn reap(mut child: Child, ended: &CancellationToken, kill: &CancellationToken, label: &str) {
    let group = child
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let by_itself = tokio::select! {
        status = child.wait() => Some(status),
        () = ended.cancelled() => None,
        () = kill.cancelled() => None,
    };
    if by_itself.is_none() {
        signal(group, Signal::TERM);
        let waited = tokio::time::timeout(GRACE, child.wait());
        let _ = kill.run_until_cancelled(waited).await;
    }
    // Whatever it started and left behind goes with it.
    signal(group, Signal::KILL);
    match child.wait().await {
        Ok(status) => tracing::info!(server = label, %status, "an MCP process ended"),
        Err(error) => tracing::warn!(server = label, %error, "an MCP process cannot be waited for"),
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // The group may be gone already.
        let _ = kill_process_group(group, signal);
    }
}

/// Logs what the process says on its standard error, no more than a few lines a minute; the rest is read and dropped.
async fn log(stderr: ChildStderr, launch: Launch) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut chunk) = (Vec::new(), [0_u8; 4096]);
    let mut minute = tokio::time::Instant::now();
    let (mut said, mut left_out) = (0, 0_u64);
    while let Ok(read @ 1..) = reader.read(&mut chunk).await {
        for byte in &chunk[..read] {
            if *byte != b'\n' {
                if line.len() < LOG_LINE_BYTES {
                    line.push(*byte);
                }
                continue;
            }
            if minute.elapsed() > Duration::from_secs(60) {
                (minute, said) = (tokio::time::Instant::now(), 0);
            }
            if said < LOG_LINES {
                said += 1;
                let text = launch.redact(&String::from_utf8_lossy(&line));
                tracing::info!(
                    server = launch.spec.label,
                    left_out,
                    "{}",
                    cut(text.trim_end(), LOG_LINE_BYTES)
                );
                left_out = 0;
            } else {
                left_out += 1;
            }
            line.clear();
        }
    }
}
