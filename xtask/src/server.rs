//! The real server, started for a stage on a free port with data of its own, and stopped after it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;

use crate::{cargo, place, process};

/// From the start to the line that says it is ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);

/// A program of cases starts more runs in a minute than one client usually may.
pub(crate) const GENEROUS: [(&str, &str); 2] = [
    ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000"),
    ("RUNLOOM_LIMITS__WRITES_PER_MINUTE", "100000"),
];

/// How much of the server's log is shown when a stage failed.
const LOG_LINES_SHOWN: usize = 40;

/// A running `runloom dev`; stopped when dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    pub(crate) url: String,
    pub(crate) workspace: String,
    pub(crate) api_key: String,
    pub(crate) admin_token: String,
}

impl Server {
    /// Builds and starts the server; `name` keeps the data and logs of stages apart.
    pub(crate) fn start(name: &str) -> anyhow::Result<Self> {
        let binary = cargo::server_binary()?;
        let folder = place::corner(&format!("server-{name}"))?;
        let data = folder.join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data)
                .with_context(|| format!("cannot clear {}", data.display()))?;
        }
        let log = folder.join("server.log");
        let log_file =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(&binary)
            .args(["dev", "--offline", "--port", "0", "--json", "--data-dir"])
            .arg(&data)
            .current_dir(&folder)
            .envs(GENEROUS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let ready = child
            .stdout
            .take()
            .context("the server has no standard output")
            .and_then(first_object);
        match ready.and_then(|line| Announcement::read(&line)) {
            Ok(announced) => Ok(Self {
                child,
                log,
                url: announced.url,
                workspace: announced.workspace,
                api_key: announced.api_key,
                admin_token: announced.admin_token,
            }),
            Err(error) => {
                process::stop(&mut child);
                Err(error.context(format!(
                    "the server did not come up; its log ends with\n{}",
                    end_of(&log)
                )))
            }
        }
    }

    /// The last lines of the server's log.
    pub(crate) fn end_of_log(&self) -> String {
        end_of(&self.log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        process::stop(&mut self.child);
    }
}

/// What `runloom dev --json` prints when it is ready.
#[derive(Debug)]
struct Announcement {
    url: String,
    workspace: String,
    api_key: String,
    admin_token: String,
}

impl Announcement {
    fn read(line: &str) -> anyhow::Result<Self> {
        let field = |name| {
            string_field(line, name)
                .with_context(|| format!("the server's line has no {name:?}: {line}"))
        };
        Ok(Self {
            url: field("url")?,
            workspace: field("workspace")?,
            api_key: field("apiKey")?,
            admin_token: field("adminToken")?,
        })
    }
}

/// A string out of a flat JSON object. The values are addresses and keys, which never hold
/// escapes; that keeps this program free of a JSON library.
fn string_field(object: &str, name: &str) -> Option<String> {
    let (_, after) = object.split_once(&format!("\"{name}\""))?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let (text, _) = value.strip_prefix('"')?.split_once('"')?;
    (!text.contains('\\')).then(|| text.to_owned())
}

/// Waits for the first line that is an object. The rest of the output is read and dropped, so
/// that the server never stands still for want of a reader.
fn first_object(stdout: ChildStdout) -> anyhow::Result<String> {
    let (sender, found) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.trim_start().starts_with('{') {
                sender.send(line).ok();
            }
        }
    });
    found
        .recv_timeout(READY_WITHIN)
        .context("no line of JSON came from the server")
}

pub(crate) fn end_of(log: &std::path::Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::Announcement;

    #[test]
    fn reads_the_servers_line() {
        let line = r#"{"apiKey": "mantyx_dev_1", "url":"http://127.0.0.1:4711","workspace" : "demo", "adminToken":"t"}"#;
        let announced = Announcement::read(line).unwrap();
        assert_eq!(announced.url, "http://127.0.0.1:4711");
        assert_eq!(announced.workspace, "demo");
        assert_eq!(announced.api_key, "mantyx_dev_1");
        assert_eq!(announced.admin_token, "t");
    }

    #[test]
    fn names_a_missing_field() {
        let line = r#"{"url":"http://127.0.0.1:4711","workspace":"demo"}"#;
        let error = Announcement::read(line).unwrap_err();
        assert!(error.to_string().contains("apiKey"), "{error}");
    }
}
