//! Starting the program, and stopping it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The program in `folder`, without anything of the tester's environment that it would read.
pub(crate) fn runloom(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runloom"));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let read = ["RUNLOOM_", "MANTYX_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let shared = ["DATABASE_URL", "REDIS_URL", "AMQP_URL", "OLLAMA_HOST"];
        let is_provider = name.ends_with("_API_KEY") || name.starts_with("AWS_");
        if read || is_provider || shared.contains(&&*name) {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs a command to its end.
pub(crate) fn ended(folder: &Path, arguments: &[&str]) -> Output {
    runloom(folder, arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server until it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stderr(Stdio::null());
        Self::spawn(command)
    }

    /// As [`Self::start`]; its log is appended to a file.
    pub(crate) fn start_logging(mut command: Command, log: &Path) -> Self {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log);
        command.stderr(file.unwrap());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// The next line that it prints; empty when it has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Asks it to stop; gives what else it printed, and its exit code.
    #[cfg(unix)]
    pub(crate) fn stop(mut self) -> (String, Option<i32>) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
