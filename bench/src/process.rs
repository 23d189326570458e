//! A child process that is measured: started, awaited until it prints its addresses, killed when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::procfs::Processes;

/// What a process prints before its address when it is ready.
pub(crate) const READY: &str = "listening on http://";

/// What the provider prints before its TLS address, earlier than [`READY`].
pub(crate) const TLS_READY: &str = "listening on https://";

const READY_WITHIN: Duration = Duration::from_secs(120);

/// A running server process.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    /// The provider and the floors end when their standard input closes, so nothing outlives a killed benchmark.
    _stdin: Option<ChildStdin>,
    pub(crate) address: SocketAddr,
    pub(crate) tls_address: Option<SocketAddr>,
    /// Time from the start of the process until it was ready.
    pub(crate) ready_after: Duration,
}

/// What the process printed when it was ready.
struct Ready {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    at: Instant,
}

impl ServerProcess {
    /// Starts the command and waits for its address. Its standard error goes to the file `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let stdin = child.stdin.take();
        let ready = child
            .stdout
            .take()
            .context("the process has no standard output")
            .and_then(wait_until_ready);
        match ready {
            Ok(ready) => Ok(Self {
                child,
                _stdin: stdin,
                address: ready.address,
                tls_address: ready.tls_address,
                ready_after: ready.at.saturating_duration_since(started),
            }),
            Err(error) => {
                kill(&mut child);
                let output = std::fs::read_to_string(log).unwrap_or_default();
                Err(error.context(format!(
                    "{} did not become ready; its log: {output}",
                    command.get_program().to_string_lossy()
                )))
            }
        }
    }

    /// Starts this program in another role: the provider or a floor.
    pub(crate) fn start_role(arguments: &[impl AsRef<OsStr>], log: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Self::start(command, log)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process as a group of one.
    pub(crate) fn usage(&self) -> Processes {
        Processes::new([self.id()])
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Kills without a graceful shutdown: it is not measured, and durability does not depend on it.
fn kill(child: &mut Child) {
    if child.kill().is_ok() {
        child.wait().ok();
    }
}

/// Waits for the addresses, and keeps reading afterwards so that the process never blocks on a full pipe.
fn wait_until_ready(stdout: ChildStdout) -> anyhow::Result<Ready> {
    let (sender, ready) = mpsc::channel();
    std::thread::spawn(move || {
        let mut tls_address = None;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(TLS_READY) {
                tls_address = address.trim().parse().ok();
            } else if let Some((_, address)) = line.split_once(READY) {
                let parsed = address.trim().parse().map(|address| Ready {
                    address,
                    tls_address,
                    at: Instant::now(),
                });
                sender.send(parsed).ok();
            }
        }
    });
    ready
        .recv_timeout(READY_WITHIN)
        .with_context(|| format!("it did not print \"{READY}ADDRESS\""))?
        .context("it printed an address that cannot be parsed")
}
