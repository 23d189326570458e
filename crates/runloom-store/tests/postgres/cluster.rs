//! A server of the test's own, for what cannot be done to one that others use. The fault suite uses it, too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A running server, stopped and deleted with this value.
pub(crate) struct Cluster {
    folder: TempDir,
    tools: PathBuf,
    port: u16,
}

impl Cluster {
    /// Starts a server with these settings, or returns `None` where PostgreSQL's own tools are not installed.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Option<Self> {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    /// The same with its files below this folder, which its user must be able to enter.
    pub(crate) fn start_in(place: &Path, settings: &[(&str, &str)]) -> Option<Self> {
        let Some(tools) = tools() else {
            eprintln!("not tested: there is no initdb on this machine");
            return None;
        };
        let folder = tempfile::tempdir_in(place).unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let cluster = Self {
            folder,
            tools,
            port,
        };
        // PostgreSQL refuses to run as root.
        if we_are_root() {
            let path = cluster.folder.path().display().to_string();
            let owned = Command::new("chown").args(["postgres", &path]).output();
            assert!(owned.unwrap().status.success());
        }
        cluster.tool("initdb", &["-A", "trust", "-U", "postgres", "-N"]);
        let mut configuration = format!("port = {port}\nlisten_addresses = '127.0.0.1'\n");
        configuration += &format!("unix_socket_directories = '{}'\n", cluster.data().display());
        for (setting, value) in settings {
            configuration += &format!("{setting} = '{value}'\n");
        }
        let file = cluster.data().join("postgresql.auto.conf");
        std::fs::write(file, configuration).unwrap();
        drop(taken);
        cluster.up();
        Some(cluster)
    }

    /// Where its files are.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its first database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it again.
    pub(crate) fn up(&self) {
        let log = self.data().join("server.log").display().to_string();
        self.tool("pg_ctl", &["start", "-w", "-t", "60", "-l", &log]);
    }

    /// Starts it again, if it does not run.
    #[allow(dead_code, reason = "the fault suite uses it")]
    pub(crate) fn up_if_down(&self) {
        let status = run(&self.tools.join("pg_ctl"), &self.data(), &["status"]);
        if !status.status.success() {
            self.up();
        }
    }

    /// Ends it as a crash would: nothing is flushed.
    pub(crate) fn down(&self) {
        self.tool("pg_ctl", &["stop", "-w", "-m", "immediate"]);
    }

    fn tool(&self, name: &str, arguments: &[&str]) {
        let output = run(&self.tools.join(name), &self.data(), arguments);
        assert!(output.status.success(), "{name}: {output:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stop = ["stop", "-w", "-m", "immediate"];
        let _ = run(&self.tools.join("pg_ctl"), &self.data(), &stop);
    }
}

/// Runs a tool of PostgreSQL on a data folder, as its user when we are root. Its output goes nowhere: a server that
/// is started would keep a pipe open.
fn run(tool: &Path, data: &Path, arguments: &[&str]) -> Output {
    let mut command = if we_are_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(tool);
        command
    } else {
        Command::new(tool)
    };
    command.arg("-D").arg(data).args(arguments);
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    command.output().unwrap()
}

pub(crate) fn we_are_root() -> bool {
    let me = Command::new("id").arg("-u").output().unwrap();
    me.stdout.starts_with(b"0")
}

/// Where Debian keeps the newest PostgreSQL.
fn tools() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|tools| tools.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}
