//! A database of its own and the processes on it.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Api;
use crate::server::{PATIENCE, Server, Settings, runloom, settings};
use crate::sse::Stream;

/// Everything that the processes of one cluster share. The database is dropped with it.
pub(crate) struct Processes {
    folder: tempfile::TempDir,
    database: String,
    settings: Settings,
}

impl Processes {
    /// With the database as queue and bus, unless `extra` says otherwise.
    pub(crate) fn new<const N: usize>(extra: [(&str, &str); N]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy();
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let database = format!("runloom_cluster_{}", letters.collect::<String>()).to_lowercase();
        psql(&format!(
            "CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'"
        ));
        let mut shared = settings([
            ("RUNLOOM_STORE__URL", &url(&database)),
            ("RUNLOOM_MASTER_KEY", "a key that all processes share"),
            ("RUNLOOM_ADMIN_TOKEN", "the administrator's token"),
            ("RUNLOOM_PLATFORM__DEMO", "true"),
            ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "100000"),
            ("RUNLOOM_LIMITS__WRITES_PER_MINUTE", "100000"),
        ]);
        shared.extend(settings(extra));
        Self {
            folder,
            database,
            settings: shared,
        }
    }

    /// The database's address.
    pub(crate) fn url(&self) -> String {
        url(&self.database)
    }

    /// A folder that goes with it.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A process that answers requests.
    pub(crate) fn api(&self) -> Server {
        self.process("api", &[])
    }

    /// A process that drives runs.
    pub(crate) fn worker(&self) -> Server {
        self.process("worker", &[])
    }

    /// A process with settings of its own, ready to serve.
    pub(crate) fn process(&self, role: &str, own: &[(&str, &str)]) -> Server {
        let mut command = runloom(&["serve", "--role", role, "--listen", "127.0.0.1:0"]);
        command.envs(self.settings.iter().cloned());
        command.envs(own.iter().copied());
        let mut server = Server::spawn(command, self.folder.path());
        let line = server.line();
        let address = line.strip_prefix("listening on http://");
        server.address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        server.ready = json!({"adminToken": "the administrator's token"});
        server
    }

    /// What a command of an operator says with the settings of the processes; whether it did well.
    pub(crate) fn said(&self, arguments: &[&str], own: &[(&str, &str)]) -> (bool, String) {
        let mut command = runloom(arguments);
        command.current_dir(self.folder.path());
        command.envs(self.settings.iter().cloned());
        command.envs(own.iter().copied());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        psql(&format!(
            "DROP DATABASE IF EXISTS {} WITH (FORCE)",
            self.database
        ));
    }
}

/// The same workspace at another process.
pub(crate) fn at(server: &Server, api: &Api) -> Api {
    Api {
        address: server.address.clone(),
        ..api.clone()
    }
}

/// A run of the demo model with a tool that the client executes.
pub(crate) fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt,
           "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}}]})
}

/// Reads a run to its end at one process; its text.
pub(crate) fn finished(api: &Api, run: &str) -> String {
    let mut stream = Stream::open(api, run, 0).unwrap().unwrap();
    while stream.next().unwrap().is_some() {}
    let snapshot = api.get(&format!("/agent-runs/{run}")).json();
    assert_eq!(snapshot["status"], "succeeded", "{snapshot}");
    snapshot["finalText"].as_str().unwrap().to_owned()
}

/// The metrics page, as the administrator sees it.
pub(crate) fn metrics(server: &Server) -> String {
    let token = [("Authorization", "Bearer the administrator's token")];
    let page = crate::http::request(&server.address, "GET", "/metrics", &token, b"").unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    String::from_utf8(page.body).unwrap()
}

/// Asks again until it holds: what one process did is seen by another soon, and nobody says when.
pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where a service is.
pub(crate) fn service(variable: &str, usual: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usual.to_owned())
}

fn server_url() -> String {
    let usual = "postgres://postgres@127.0.0.1:5432/postgres";
    service("RUNLOOM_TEST_POSTGRES", usual)
}

fn url(database: &str) -> String {
    let server = server_url();
    let (address, _) = server.rsplit_once('/').unwrap();
    format!("{address}/{database}")
}

fn psql(sql: &str) {
    let url = server_url();
    postgres("psql", &["--no-psqlrc", "--quiet", "--command", sql, &url]);
}

/// One of PostgreSQL's own programs, which must succeed.
pub(crate) fn postgres(program: &str, arguments: &[&str]) {
    let said = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let stderr = String::from_utf8_lossy(&said.stderr);
    if !said.status.success() && !std::thread::panicking() {
        panic!("{program}: {stderr} (RUNLOOM_TEST_POSTGRES says where PostgreSQL is)");
    }
}
