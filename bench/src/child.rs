//! A process that is measured: started, waited for until it says where it listens, ended when dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::meter::Meter;

/// What a server prints, with its address behind it, when it is ready.
pub(crate) const READY: &str = "listening on http://";

/// A server that takes longer to come up will never come.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Closed with this handle: the provider and the floors end when it closes, so that a killed measurement leaves
    /// nothing behind.
    _stdin: Option<ChildStdin>,
    pub(crate) address: SocketAddr,
    /// From the start of the process to its being ready.
    pub(crate) ready_after: Duration,
}

impl Running {
    /// Starts the command and waits for its address. Its standard error goes to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let begun = Instant::now();
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
            .context("the server has no standard output")
            .and_then(address_from);
        match ready {
            Ok((address, at)) => Ok(Self {
                child,
                _stdin: stdin,
                address,
                ready_after: at.saturating_duration_since(begun),
            }),
            Err(error) => {
                end(&mut child);
                let said = std::fs::read_to_string(log).unwrap_or_default();
                Err(error.context(format!(
                    "{} did not come up; it said: {said}",
                    command.get_program().to_string_lossy()
                )))
            }
        }
    }

    /// Starts another face of this very program: the provider or a floor.
    pub(crate) fn face(arguments: &[&str], log: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program lies")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Self::start(command, log)
    }

    /// The meter of the process.
    pub(crate) fn meter(&self) -> Meter {
        Meter::of(self.child.id())
    }

    /// `http://` and the address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills: nobody measures an orderly end, and promises are kept without one.
fn end(child: &mut Child) {
    if child.kill().is_ok() {
        child.wait().ok();
    }
}

/// Reads the address, and goes on reading, so that the server never stands still for want of a reader.
fn address_from(stdout: ChildStdout) -> anyhow::Result<(SocketAddr, Instant)> {
    let (sender, found) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(READY) {
                sender.send((address.trim().parse(), Instant::now())).ok();
            }
        }
    });
    let (address, at) = found
        .recv_timeout(READY_WITHIN)
        .with_context(|| format!("no line `{READY}…` came"))?;
    Ok((address.context("the address cannot be read")?, at))
}
