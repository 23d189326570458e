//! Services of the suite's own, so that their deaths harm nobody else: PostgreSQL, RabbitMQ, Valkey or Redis.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lapin::options::QueuePurgeOptions;
use lapin::{Connection, ConnectionProperties};
use tokio::runtime::Runtime;

use crate::server::PATIENCE;

/// The queue's name, which the protocol's documents give.
const QUEUE: &str = "mantyx:agent-runs";

/// A port that was free just now.
fn free_port() -> u16 {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    taken.local_addr().unwrap().port()
}

/// Waits until somebody listens there, or nobody any more. Nobody tells, so it is asked again and again.
fn wait_until(listens: bool, port: u16, what: &str) {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() != listens {
        assert!(begun.elapsed() < PATIENCE, "{what} does not start or end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A Valkey, or a Redis where there is none.
pub(crate) struct Valkey {
    program: &'static str,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Valkey {
    pub(crate) fn start(folder: &Path) -> Self {
        let program = ["valkey-server", "redis-server"]
            .into_iter()
            .find(|program| {
                let known = Command::new(program).arg("--version").output();
                known.is_ok_and(|output| output.status.success())
            })
            .expect("the fault suite needs valkey-server or redis-server: install the package valkey or redis-server");
        let port = free_port();
        let child = Self::spawn(program, folder, port);
        Self {
            program,
            folder: folder.to_owned(),
            port,
            child,
        }
    }

    fn spawn(program: &str, folder: &Path, port: u16) -> Child {
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(true, port, program);
        child
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Dies, and comes back with nothing.
    pub(crate) fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = Self::spawn(self.program, &self.folder, self.port);
    }

    /// Forgets everything.
    pub(crate) fn flush(&self) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        connection.write_all(b"FLUSHALL\r\n").unwrap();
        let mut answer = [0; 5];
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n");
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A RabbitMQ node with a name, ports and folders of its own.
pub(crate) struct Rabbit {
    folder: PathBuf,
    port: u16,
    distribution: u16,
    child: Child,
}

impl Rabbit {
    pub(crate) fn start(folder: &Path) -> Self {
        let folder = folder.join("rabbitmq");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("plugins"), "[].").unwrap();
        let (port, distribution) = (free_port(), free_port());
        let child = Self::spawn(&folder, port, distribution);
        Self {
            folder,
            port,
            distribution,
            child,
        }
    }

    fn spawn(folder: &Path, port: u16, distribution: u16) -> Child {
        let child = Command::new(program())
            .env("HOME", folder)
            .env("RABBITMQ_NODENAME", format!("faults-{port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("none"))
            .env("RABBITMQ_PID_FILE", folder.join("pid"))
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(true, port, "rabbitmq-server");
        child
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// Dies, and comes back with what it had on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = Self::spawn(&self.folder, self.port, self.distribution);
    }

    /// What the script started is another process than the script.
    fn kill(&mut self) {
        if let Ok(process) = std::fs::read_to_string(self.folder.join("pid")) {
            let line = format!("kill -KILL {}", process.trim());
            let _ = Command::new("sh").args(["-c", &line]).output();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        wait_until(false, self.port, "rabbitmq-server");
    }

    /// Throws every waiting message away; says how many. A node that was just started refuses while its queue has no
    /// leader, and nobody tells when it has, so it is asked again and again.
    pub(crate) fn purge(&self, runtime: &Runtime) -> u32 {
        runtime.block_on(crate::in_time("the queue is purged", async {
            loop {
                match self.try_purge().await {
                    Ok(purged) => return purged,
                    Err(error) => println!("the queue is not purged yet: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }))
    }

    async fn try_purge(&self) -> lapin::Result<u32> {
        let (url, properties) = (self.url(), ConnectionProperties::default());
        let connection = Connection::connect(&url, properties).await?;
        let channel = connection.create_channel().await?;
        let purged = channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default());
        let purged = purged.await?;
        let _ = connection.close(200, "done".into()).await;
        Ok(purged)
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The server's own script: the one in the path changes to a user of its own.
fn program() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/rabbitmq/lib")
        .into_iter()
        .flatten();
    let mut found: Vec<PathBuf> = installed
        .filter_map(|version| Some(version.ok()?.path().join("sbin/rabbitmq-server")))
        .filter(|script| script.exists())
        .collect();
    found.sort();
    found.pop().expect(
        "the fault suite needs RabbitMQ's server: install the package rabbitmq-server (it need not run)",
    )
}
