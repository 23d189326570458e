//! The server under test: configuration, data and processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::database::Database;
use crate::process::ServerProcess;
use crate::procfs::Processes;
use crate::provider::TOOL_PATH;
use crate::script::TOOL;
use crate::target::Target;
use crate::upstream::Endpoint;
use crate::workloads::Subject;

const WORKSPACE: &str = "bench";
/// Not a secret: its servers listen on loopback and live for minutes.
const API_KEY: &str = "mantyx_bench_0123456789abcdef0123456789abcdef";

/// The store and the processes of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One process on SQLite.
    Sqlite,
    /// One process on PostgreSQL.
    PostgresSingle,
    /// An API process and two workers on PostgreSQL.
    PostgresCluster,
}

/// One process of a server.
struct ProcessRole {
    /// Name of the log file.
    name: &'static str,
    /// The value of `--role`.
    role: &'static str,
}

impl Deployment {
    /// The processes; clients connect to the first one.
    fn process_roles(self) -> &'static [ProcessRole] {
        match self {
            Self::Sqlite | Self::PostgresSingle => &[ProcessRole {
                name: "server",
                role: "all",
            }],
            Self::PostgresCluster => &[
                ProcessRole {
                    name: "api",
                    role: "api",
                },
                ProcessRole {
                    name: "worker-1",
                    role: "worker",
                },
                ProcessRole {
                    name: "worker-2",
                    role: "worker",
                },
            ],
        }
    }

    /// Names the deployment in the report; empty for the default one.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::PostgresSingle => "one process",
            Self::PostgresCluster => "API + 2 workers",
        }
    }
}

/// A running Runloom.
#[derive(Debug)]
pub(crate) struct Server {
    ready_after: Duration,
    pub(crate) subject: Subject,
    // Dropped in this order: a database is dropped after the processes that use it.
    _processes: Vec<ServerProcess>,
    _database: Option<Database>,
}

impl Server {
    /// Time from the start of the process that clients connect to until it was ready.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }
}

/// Starts servers by name. A server's configuration, logs and SQLite file are in a folder of that name.
#[derive(Debug, Clone)]
pub(crate) struct ServerLauncher {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) provider: Endpoint,
    pub(crate) deployment: Deployment,
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
        let database = match self.deployment {
            Deployment::Sqlite => None,
            Deployment::PostgresSingle | Deployment::PostgresCluster => {
                Some(Database::create(name)?)
            }
        };
        self.start(name, models, database)
    }

    /// Starts a server on the SQLite file of an earlier one of the same name.
    pub(crate) fn restart(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        anyhow::ensure!(
            self.deployment == Deployment::Sqlite,
            "only a server on SQLite can be restarted"
        );
        self.start(name, models, None)
    }

    fn start(
        &self,
        name: &str,
        models: &[&str],
        database: Option<Database>,
    ) -> anyhow::Result<Server> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let store_url = match &database {
            Some(database) => database.url.clone(),
            None => format!("sqlite:{}", self.database_file(name).display()),
        };
        let file = folder.join("runloom.toml");
        std::fs::write(&file, configuration(&store_url, &self.provider.url, models))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut processes = Vec::new();
        for process in self.deployment.process_roles() {
            let log = folder.join(format!("{}.log", process.name));
            let command = self.command(&folder, &file, process.role);
            processes.push(ServerProcess::start(command, &log)?);
        }
        let api = processes.first().context("a server has a process")?;
        Ok(Server {
            ready_after: api.ready_after,
            subject: Subject {
                target: Target::Runloom {
                    address: api.address,
                    workspace: WORKSPACE.to_owned(),
                    key: API_KEY.to_owned(),
                },
                processes: Processes::new(processes.iter().map(ServerProcess::id)),
            },
            _processes: processes,
            _database: database,
        })
    }

    fn command(&self, folder: &Path, configuration: &Path, role: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--role", role])
            .arg("--config")
            .arg(configuration)
            .current_dir(folder)
            // It would take precedence over the configuration's store.
            .env_remove("DATABASE_URL")
            .env("RUNLOOM_MASTER_KEY", "bench-bench-bench-bench-bench-32")
            .env("BENCH_KEY", API_KEY)
            .env("BENCH_PROVIDER_KEY", "sk-bench")
            .env("SSL_CERT_FILE", &self.provider.ca_file);
        command
    }

    /// Deletes a server's folder: the stores of a whole benchmark are gigabytes.
    pub(crate) fn clear(&self, name: &str) {
        std::fs::remove_dir_all(self.folder.join(name)).ok();
    }
}

/// Rate and concurrency limits are set so high that they never apply.
fn configuration(store_url: &str, provider_url: &str, models: &[&str]) -> String {
    let default_model = models.first().copied().unwrap_or_default();
    let models: Vec<String> = models
        .iter()
        .map(|model| format!("{{ id = \"{model}\", context_window = 100000000 }}"))
        .collect();
    format!(
        r#"[server]
listen = "127.0.0.1:0"

[store]
url = "{store_url}"

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
        models = models.join(", ")
    )
}
