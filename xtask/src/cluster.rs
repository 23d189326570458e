//! The real server as several processes, started for a stage on a database of its own: an API and two workers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use anyhow::Context;

use crate::server::{GENEROUS, READY_WITHIN, end_of};
use crate::{cargo, place, process};

const DATABASE: &str = "runloom_xtask_interop";
const USUAL: &str = "postgres://postgres@127.0.0.1:5432/postgres";
const KEY: &str = "mantyx_interop_0123456789abcdef";

/// Running processes; stopped when dropped, and their database with them.
pub(crate) struct Cluster {
    children: Vec<Child>,
    logs: Vec<PathBuf>,
    pub(crate) url: String,
}

impl Cluster {
    /// The workspace that the processes have.
    pub(crate) const WORKSPACE: &'static str = "demo";
    /// Its key.
    pub(crate) const API_KEY: &'static str = KEY;
    /// What opens the admin API.
    pub(crate) const ADMIN_TOKEN: &'static str = "the admin token of the cluster";

    /// Builds and starts them.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let binary = cargo::server_binary()?;
        let folder = place::corner("server-cluster")?;
        let declared = format!(
            "[[workspaces]]\nslug = \"{}\"\n[[workspaces.api_keys]]\nname = \"interop\"\nkey_env = \"INTEROP_KEY\"\n",
            Self::WORKSPACE
        );
        std::fs::write(folder.join("runloom.toml"), declared)
            .with_context(|| format!("cannot write into {}", folder.display()))?;
        psql(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))?;
        psql(&format!(
            "CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'"
        ))?;
        let mut cluster = Self {
            children: Vec::new(),
            logs: Vec::new(),
            url: String::new(),
        };
        for (name, role) in [("api", "api"), ("first", "worker"), ("second", "worker")] {
            let url = cluster.add(&binary, &folder, name, role)?;
            if role == "api" {
                cluster.url = url;
            }
        }
        Ok(cluster)
    }

    /// Starts one process and waits until it is ready; its address.
    fn add(
        &mut self,
        binary: &Path,
        folder: &Path,
        name: &str,
        role: &str,
    ) -> anyhow::Result<String> {
        let log = folder.join(format!("{name}.log"));
        let log_file =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(binary)
            .args(["serve", "--role", role, "--listen", "127.0.0.1:0"])
            .args(["--config", "runloom.toml"])
            .current_dir(folder)
            .envs(GENEROUS)
            .envs([
                ("RUNLOOM_STORE__URL", database_url()?.as_str()),
                ("RUNLOOM_MASTER_KEY", "a key that all processes share"),
                ("RUNLOOM_PLATFORM__DEMO", "true"),
                ("INTEROP_KEY", Self::API_KEY),
                ("RUNLOOM_ADMIN_TOKEN", Self::ADMIN_TOKEN),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take();
        self.children.push(child);
        self.logs.push(log);
        let (sender, said) = mpsc::channel();
        let stdout = BufReader::new(stdout.context("the server has no standard output")?);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        let line = said
            .recv_timeout(READY_WITHIN)
            .with_context(|| format!("the {role} did not come up:\n{}", self.end_of_logs()))?;
        line.strip_prefix("listening on ")
            .map(str::to_owned)
            .with_context(|| format!("not an address: {line}"))
    }

    /// The last lines of every log.
    pub(crate) fn end_of_logs(&self) -> String {
        let ends: Vec<String> = self.logs.iter().map(|log| end_of(log)).collect();
        ends.join("\n--- the next process\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(process::stop);
        // What is left is dropped at the next start.
        let _ = psql(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"));
    }
}

fn server_url() -> String {
    std::env::var("RUNLOOM_TEST_POSTGRES").unwrap_or_else(|_| USUAL.to_owned())
}

fn database_url() -> anyhow::Result<String> {
    let server = server_url();
    let (address, _) = server
        .rsplit_once('/')
        .context("RUNLOOM_TEST_POSTGRES has the form postgres://user@host:port/database")?;
    Ok(format!("{address}/{DATABASE}"))
}

fn psql(sql: &str) -> anyhow::Result<()> {
    let said = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--command", sql, &server_url()])
        .output()
        .context("psql is needed, from PostgreSQL's client package")?;
    anyhow::ensure!(
        said.status.success(),
        "PostgreSQL is not to be had (RUNLOOM_TEST_POSTGRES says where it is): {}",
        String::from_utf8_lossy(&said.stderr)
    );
    Ok(())
}
