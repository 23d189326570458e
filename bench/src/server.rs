//! The server under test: configuration, data and process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::process::ServerProcess;
use crate::provider::TOOL_PATH;
use crate::script::TOOL;
use crate::target::Target;
use crate::upstream::Endpoint;
use crate::workloads::Subject;

const WORKSPACE: &str = "bench";
/// Not a secret: its servers listen on loopback and live for minutes.
const API_KEY: &str = "mantyx_bench_0123456789abcdef0123456789abcdef";

/// A running Runloom.
#[derive(Debug)]
pub(crate) struct Server {
    process: ServerProcess,
    pub(crate) subject: Subject,
}

impl Server {
    /// Time from the start of the process until it was ready.
    pub(crate) fn ready_after(&self) -> Duration {
        self.process.ready_after
    }
}

/// Starts servers by name. A server's data and log are in a folder of that name.
#[derive(Debug, Clone)]
pub(crate) struct ServerLauncher {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) provider: Endpoint,
}

impl ServerLauncher {
    /// The SQLite file of a server.
    pub(crate) fn database_file(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("runloom.db")
    }

    /// Starts a server with an empty store.
    pub(crate) fn start_empty(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        let folder = self.folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot delete {}", folder.display()))?;
        }
        self.restart(name, models)
    }

    /// Starts a server with the data of an earlier one of the same name.
    pub(crate) fn restart(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join("runloom.toml");
        let text = configuration(&self.database_file(name), &self.provider.url, models);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .current_dir(&folder)
            .env("RUNLOOM_MASTER_KEY", "bench-bench-bench-bench-bench-32")
            .env("BENCH_KEY", API_KEY)
            .env("BENCH_PROVIDER_KEY", "sk-bench")
            .env("SSL_CERT_FILE", &self.provider.ca_file);
        let process = ServerProcess::start(command, &folder.join("server.log"))?;
        let subject = Subject {
            target: Target::Runloom {
                address: process.address,
                workspace: WORKSPACE.to_owned(),
                key: API_KEY.to_owned(),
            },
            processes: process.usage(),
        };
        Ok(Server { process, subject })
    }

    /// Deletes a server's data: the stores of a whole benchmark are gigabytes.
    pub(crate) fn clear(&self, name: &str) {
        std::fs::remove_dir_all(self.folder.join(name)).ok();
    }
}

/// Rate and concurrency limits are set so high that they never apply.
fn configuration(database: &Path, provider_url: &str, models: &[&str]) -> String {
    let default_model = models.first().copied().unwrap_or_default();
    let models: Vec<String> = models
        .iter()
        .map(|model| format!("{{ id = \"{model}\", context_window = 100000000 }}"))
        .collect();
    format!(
        r#"[server]
listen = "127.0.0.1:0"

[store]
url = "sqlite:{database}"

[runs]
local_tool_timeout_ms = 3600000
park_after_ms = 100
max_concurrent = 100000

[limits]
run_starts_per_minute = 4000000000
lifecycle_per_minute = 4000000000
writes_per_minute = 4000000000
reads_per_minute = 4000000000
max_body_bytes = 67108864

[outbound]
allow_private_networks = true

[log]
level = "warn"

[[workspaces]]
slug = "{WORKSPACE}"
name = "Bench"
default_model = "script/{default_model}"

[[workspaces.api_keys]]
name = "bench"
key_env = "BENCH_KEY"
usage = "developer_api"

[[workspaces.providers]]
id = "script"
kind = "openai"
base_url = "{provider_url}/v1"
api_key_env = "BENCH_PROVIDER_KEY"
models = [ {models} ]

[[workspaces.tools]]
slug = "{TOOL}"
type = "http"
description = "Looks something up."
url = "{provider_url}{TOOL_PATH}"
"#,
        database = database.display(),
        models = models.join(", ")
    )
}
