//! nginx as TLS terminator in front of the provider.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::certificate::Certificate;
use crate::server::PATIENCE;

/// Requests per connection before nginx closes it: small, so that closing happens all the time.
const KEEPALIVE_REQUESTS: u32 = 20;

/// A running nginx; killed when it is dropped.
pub(crate) struct Nginx {
    folder: PathBuf,
    child: Child,
    pub(crate) address: SocketAddr,
}

/// One line of the access log.
pub(crate) struct Request {
    /// Number of the connection that it came on.
    pub(crate) connection: u64,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub(crate) protocol: String,
}

impl Nginx {
    /// Terminates TLS on a free port and passes everything on to the provider.
    pub(crate) fn start(folder: &Path, certificate: &Certificate, provider: SocketAddr) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let configuration = configuration(folder, address, certificate, provider);
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let mut nginx = Self {
            folder: folder.to_owned(),
            child: spawn(folder),
            address,
        };
        nginx.wait_until_listening();
        nginx
    }

    /// Reloads: old workers close their idle connections at once and the others after their response. Returns when
    /// a new worker has taken over.
    pub(crate) fn reload(&self) {
        let workers = self.workers();
        let status = Command::new("kill")
            .args(["-HUP", &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
        let begun = Instant::now();
        while self.workers().is_subset(&workers) {
            assert!(begun.elapsed() < PATIENCE, "nginx does not reload");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills nginx, which resets every connection, and starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.folder);
        self.wait_until_listening();
    }

    /// Every request so far that has ended.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(self.folder.join("access.log")).unwrap();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            Some(Request {
                connection: words.next()?.parse().ok()?,
                protocol: words.next()?.to_owned(),
            })
        };
        log.lines().filter_map(parse).collect()
    }

    fn wait_until_listening(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "nginx does not listen: {}",
                std::fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Process ids of its workers.
    fn workers(&self) -> HashSet<u32> {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let ids = children.split_whitespace().map(|id| id.parse().unwrap());
        ids.collect()
    }

    fn kill(&mut self) {
        for id in self.workers() {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path) -> Child {
    Command::new("nginx")
        .arg("-p")
        .arg(folder)
        .args(["-c", "nginx.conf", "-e", "error.log"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs `nginx`: {error}"))
}

fn configuration(
    folder: &Path,
    address: SocketAddr,
    certificate: &Certificate,
    provider: SocketAddr,
) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 8192;
pid {pid};
error_log {error_log} info;
events {{ worker_connections 4096; }}
http {{
    log_format requests '$connection $server_protocol $status';
    access_log {access_log} requests;
    client_body_temp_path {bodies};
    proxy_temp_path {proxied};
    fastcgi_temp_path {bodies}-fastcgi;
    uwsgi_temp_path {bodies}-uwsgi;
    scgi_temp_path {bodies}-scgi;
    client_body_buffer_size 1m;
    keepalive_requests {KEEPALIVE_REQUESTS};
    server {{
        listen {address} ssl http2 backlog=4096;
        ssl_certificate {chain};
        ssl_certificate_key {key};
        location / {{
            proxy_pass http://{provider};
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_read_timeout 120s;
        }}
    }}
}}
",
        pid = path("nginx.pid"),
        error_log = path("error.log"),
        access_log = path("access.log"),
        bodies = path("bodies"),
        proxied = path("proxied"),
        chain = certificate.chain.display(),
        key = certificate.key.display(),
    )
}
