//! The server under test: its configuration, its data, its process.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::child::Running;
use crate::drive::Target;
use crate::provider::TOOL_PATH;
use crate::script::TOOL;

/// The workspace of the measurements.
const WORKSPACE: &str = "bench";
/// Its key; it opens nothing but a server on loopback that lives for minutes.
const KEY: &str = "mantyx_bench_0123456789abcdef0123456789abcdef";

/// A running Runloom.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) target: Target,
}

/// Where a server's binary, data and logs are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Place {
    /// The store's file of the named server.
    pub(crate) fn store(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("runloom.db")
    }

    /// Starts a server on an empty store.
    pub(crate) fn fresh(
        &self,
        name: &str,
        provider: &str,
        models: &[&str],
    ) -> anyhow::Result<Server> {
        let folder = self.folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        self.again(name, provider, models)
    }

    /// Starts a server on what an earlier one of that name left.
    pub(crate) fn again(
        &self,
        name: &str,
        provider: &str,
        models: &[&str],
    ) -> anyhow::Result<Server> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join("runloom.toml");
        std::fs::write(&file, configuration(&self.store(name), provider, models))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .current_dir(&folder)
            .env("RUNLOOM_MASTER_KEY", "bench-bench-bench-bench-bench-32")
            .env("BENCH_KEY", KEY)
            .env("BENCH_PROVIDER_KEY", "sk-bench");
        let running = Running::start(command, &folder.join("server.log"))?;
        let target = Target::Runloom {
            address: running.address,
            workspace: WORKSPACE.to_owned(),
            key: KEY.to_owned(),
        };
        Ok(Server { running, target })
    }

    /// Deletes what a server left: the stores of a whole measurement are gigabytes.
    pub(crate) fn clear(&self, name: &str) {
        std::fs::remove_dir_all(self.folder.join(name)).ok();
    }
}

/// Limits stand at their upper ends: what is measured is the server, not its good manners.
fn configuration(store: &Path, provider: &str, models: &[&str]) -> String {
    let models: Vec<String> = models
        .iter()
        .map(|model| format!("{{ id = \"{model}\", context_window = 100000000 }}"))
        .collect();
    let default = models.first().map_or("", String::as_str);
    let default = default.split('"').nth(1).unwrap_or_default();
    format!(
        r#"[server]
listen = "127.0.0.1:0"

[store]
url = "sqlite:{store}"

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
default_model = "script/{default}"

[[workspaces.api_keys]]
name = "bench"
key_env = "BENCH_KEY"
usage = "developer_api"

[[workspaces.providers]]
id = "script"
kind = "openai"
base_url = "{provider}/v1"
api_key_env = "BENCH_PROVIDER_KEY"
models = [ {models} ]

[[workspaces.tools]]
slug = "{TOOL}"
type = "http"
description = "Looks something up."
url = "{provider}{TOOL_PATH}"
"#,
        store = store.display(),
        models = models.join(", ")
    )
}
