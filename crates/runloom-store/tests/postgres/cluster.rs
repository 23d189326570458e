//! A server of the test's own, for what cannot be done to one that others use: unsafe settings, restarts, TLS.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runloom_core::ports::store::{CommitError, Next, StoreErrorKind};
use runloom_store::{OpenError, OpenOptions, open};
use tempfile::TempDir;

use crate::fixture::{Fixture, Place, batch};

/// A running server, stopped and deleted with this value.
struct Cluster {
    folder: TempDir,
    tools: PathBuf,
    port: u16,
}

impl Place for Cluster {}

impl Cluster {
    /// Starts a server with these settings, or returns `None` where PostgreSQL's own tools are not installed.
    fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let Some(tools) = tools() else {
            eprintln!("not tested: there is no initdb on this machine");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
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

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn up(&self) {
        let log = self.data().join("server.log").display().to_string();
        self.tool("pg_ctl", &["start", "-w", "-t", "60", "-l", &log]);
    }

    fn down(&self) {
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

/// Runs a tool of PostgreSQL on a data folder, as its user when we are root. Its output goes nowhere: a server that is started
/// would keep a pipe open.
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

fn we_are_root() -> bool {
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

#[tokio::test]
async fn a_server_that_can_lose_data_is_refused_by_name() {
    for (setting, remedy) in [
        ("fsync", "fsync = on"),
        ("full_page_writes", "full_page_writes = on"),
    ] {
        let Some(cluster) = Cluster::start(&[(setting, "off")]) else {
            return;
        };
        let refused = open(&cluster.url(), OpenOptions::default()).await;
        let Err(error @ OpenError::Unsafe { .. }) = refused else {
            panic!("{setting} = off was accepted");
        };
        let said = error.to_string();
        assert!(said.contains(setting) && said.contains(remedy), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_server_costs_time_and_nothing_else() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let cluster = std::sync::Arc::new(cluster);
    let fixture = Fixture::at(cluster.url(), tempfile::tempdir().unwrap()).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    cluster.down();
    // Nobody is there: an error that says "later", within bounded time.
    let refused = fixture.try_commit(lease, batch(3, 3, Next::Keep)).await;
    let Err(CommitError::Store(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    let refused = fixture.store().next_timer().await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Unavailable);
    cluster.up();
    fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2), (3, 3)]);
}

#[tokio::test]
async fn tls_is_used_when_asked_for_and_the_certificate_must_be_good() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let (certificate, key) = (
        cluster.data().join("server.crt"),
        cluster.data().join("server.key"),
    );
    if !self_signed(&certificate, &key) {
        eprintln!("not tested: there is no openssl on this machine");
        return;
    }
    cluster.down();
    let file = cluster.data().join("postgresql.auto.conf");
    let configuration = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{configuration}ssl = on\n")).unwrap();
    // Only TLS is let in.
    let gate = "hostssl all all 127.0.0.1/32 trust\n";
    std::fs::write(cluster.data().join("pg_hba.conf"), gate).unwrap();
    cluster.up();
    let plain = open(&cluster.url(), OpenOptions::default()).await;
    assert!(plain.is_err(), "the server takes TLS only");
    let untrusted = format!("{}?sslmode=require", cluster.url());
    let refused = open(&untrusted, OpenOptions::default()).await;
    assert!(refused.is_err(), "nobody vouches for the certificate");
    let trusted = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        cluster.url(),
        certificate.display()
    );
    let store = open(&trusted, OpenOptions::default()).await.unwrap();
    assert!(store.workspaces().await.unwrap().is_empty());
}

/// A certificate for 127.0.0.1, readable for the server.
fn self_signed(certificate: &Path, key: &Path) -> bool {
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .arg("-addext")
        .arg("basicConstraints=critical,CA:FALSE")
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output();
    let Ok(made) = made else { return false };
    assert!(made.status.success(), "{made:?}");
    if we_are_root() {
        for file in [certificate, key] {
            let owned = Command::new("chown").arg("postgres").arg(file).output();
            assert!(owned.unwrap().status.success());
        }
    }
    true
}
