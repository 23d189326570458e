//! The program as a process: started on a free port in a folder of its own, killed, asked to stop, waited for.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::http::{Answer, Api};

/// Longer than anything here may take; when it passes, something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a server as environment variables.
pub(crate) type Settings = Vec<(String, String)>;

/// Settings from pairs of literals.
pub(crate) fn settings<const N: usize>(pairs: [(&str, &str); N]) -> Settings {
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// The program with nothing of the tester's environment that it would read.
pub(crate) fn runloom(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runloom"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let read = [
            "OTEL_",
            "RUNLOOM_",
            "MANTYX_",
            "DATABASE_URL",
            "REDIS_URL",
            "AMQP_URL",
        ];
        if read.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    log: PathBuf,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    /// What `dev` said when it was ready; null for `serve`.
    pub(crate) ready: Value,
}

impl Server {
    /// `runloom dev` in this folder.
    pub(crate) fn dev(folder: &Path, settings: &[(String, String)]) -> Self {
        let data = folder.join("data");
        let mut command = runloom(&["dev", "--listen", "127.0.0.1:0", "--json", "--data-dir"]);
        command.arg(&data).envs(settings.iter().cloned());
        let mut server = Self::spawn(command, folder);
        let line = server.line();
        server.ready = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{line:?}: {error}\n{}", server.said()));
        let url = server.ready["url"].as_str().unwrap();
        server.address = url.strip_prefix("http://").unwrap().to_owned();
        server
    }

    /// `runloom serve` with this configuration, in this folder.
    pub(crate) fn serve(folder: &Path, config: &str, variables: &[(String, String)]) -> Self {
        std::fs::write(folder.join("runloom.toml"), config).unwrap();
        let mut command = runloom(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().cloned());
        let mut server = Self::spawn(command, folder);
        let line = server.line();
        let address = line.strip_prefix("listening on http://");
        server.address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        server
    }

    /// A provider of the demo workspace that speaks chat completions; gives the id of its model.
    pub(crate) fn provider(&self, url: &str, model: Value) -> String {
        let provider =
            serde_json::json!({"kind": "openai-compatible", "baseUrl": url, "models": [model]});
        let made = self.admin(
            "PUT",
            "/api/admin/v1/workspaces/demo/providers/script",
            &provider,
        );
        assert!(made.status < 300, "{made:?}");
        format!("provider:script:{}", model["id"].as_str().unwrap())
    }

    /// Any command that keeps running; what it prints is read by [`Self::line`].
    pub(crate) fn spawn(mut command: Command, folder: &Path) -> Self {
        let log = folder.join(format!("stderr-{}", unique()));
        let mut child = command
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            log,
            address: String::new(),
            ready: Value::Null,
        }
    }

    /// The next line on standard output; fails when the process ends or hangs.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!(
                "the program printed nothing more ({error}):\n{}",
                self.said()
            ),
        }
    }

    /// What it has said on standard error so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the process has ended by itself or by a signal that it got.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        // Standard output closes with the process.
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the program did not end:\n{}", self.said())
                }
            }
        }
    }

    /// Kills it as the kernel would: nothing is flushed, nobody is told.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.ended();
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &line])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Asks it to stop and waits for the end.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended()
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The demo workspace's API at the server's address.
    pub(crate) fn api(&self) -> Api {
        Api {
            address: self.address.clone(),
            workspace: "demo".to_owned(),
            key: self.ready["apiKey"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// A request to the admin API.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &Value) -> Answer {
        let token = format!("Bearer {}", self.ready["adminToken"].as_str().unwrap());
        let headers = [
            ("Authorization", token.as_str()),
            ("Content-Type", "application/json"),
        ];
        crate::http::request(
            &self.address,
            method,
            path,
            &headers,
            body.to_string().as_bytes(),
        )
        .unwrap()
    }

    /// A workspace of its own with a key.
    pub(crate) fn tenant(&self, slug: &str) -> Api {
        let made = self.admin(
            "PUT",
            &format!("/api/admin/v1/workspaces/{slug}"),
            &serde_json::json!({}),
        );
        assert!(made.status < 300, "{made:?}");
        let key = self.key(slug, &serde_json::json!({}));
        Api {
            address: self.address.clone(),
            workspace: slug.to_owned(),
            key,
        }
    }

    /// One more key of a workspace.
    pub(crate) fn key(&self, slug: &str, wanted: &Value) -> String {
        let made = self.admin(
            "POST",
            &format!("/api/admin/v1/workspaces/{slug}/keys"),
            wanted,
        );
        assert!(made.status < 300, "{made:?}");
        made.json()["key"].as_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
    }
}

fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
