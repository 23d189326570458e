//! Clients that write their whole request before they read, and are refused meanwhile.

use std::io;
use std::net::SocketAddr;

use runloom_http::Settings;
use runloom_ports::shutdown::Shutdown;
use runloom_ports::tasks::Tasks;
use runloom_service::rate::RateLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::app::TestApp;

/// More than the kernel keeps for a client that is not read.
const LARGE: usize = 12 * 1024 * 1024;

const JSON: &str = "content-type: application/json\r\n";

/// A server on a real socket, with a small limit of bodies.
struct Served {
    app: TestApp,
    address: SocketAddr,
    shutdown: Shutdown,
}

impl Served {
    async fn new(limits: RateLimits) -> Self {
        let settings = Settings {
            max_body_bytes: 100_000,
            ..Settings::default()
        };
        let app = TestApp::with(limits, settings).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let drain = std::time::Duration::ZERO;
        let serving = runloom_http::serve(
            listener,
            app.router.clone(),
            runloom_http::ConnectionLimits::total(100),
            shutdown.clone(),
            drain,
        );
        Tasks::default().spawn("serve", async {
            serving.await.unwrap();
        });
        Self {
            app,
            address,
            shutdown,
        }
    }

    /// The head of a request with a body.
    fn head(&self, path: &str, headers: &str) -> String {
        let key = &self.app.key;
        format!(
            "POST /api/v1/workspaces/acme{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n{headers}\r\n"
        )
    }

    /// Writes everything, then reads everything.
    async fn whole(&self, head: &str, body: &[u8]) -> io::Result<String> {
        let mut client = TcpStream::connect(self.address).await?;
        client.write_all(head.as_bytes()).await?;
        client.write_all(body).await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.close_connections();
    }
}

#[tokio::test]
async fn client_reads_an_early_refusal() {
    let one_run = RateLimits {
        run_starts_per_minute: 1,
        ..RateLimits::default()
    };
    let served = Served::new(one_run).await;
    let length = format!("content-length: {LARGE}\r\n");
    let body = vec![b' '; LARGE];
    let chunked = [format!("{LARGE:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let results = "/agent-runs/run_x/tool-results";
    for (case, head, body, status) in [
        (
            "too large",
            served.head(results, &format!("{JSON}{length}")),
            &body,
            413,
        ),
        (
            "too large, unannounced",
            served.head(results, &format!("{JSON}transfer-encoding: chunked\r\n")),
            &chunked,
            413,
        ),
        ("no JSON", served.head(results, &length), &body, 415),
        (
            "body that nobody reads",
            served.head("/agent-runs/run_x/cancel", &length),
            &body,
            404,
        ),
        ("first run", served.head("/agent-runs", &length), &body, 415),
        ("too many", served.head("/agent-runs", &length), &body, 429),
        (
            "wrong key",
            served
                .head(results, &length)
                .replace(&served.app.key, "mantyx_no"),
            &body,
            401,
        ),
        (
            "unknown route",
            served.head("/nowhere", &length),
            &body,
            404,
        ),
    ] {
        let answer = served.whole(&head, body).await;
        let answer = answer.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{case}: {answer}"
        );
        assert!(answer.contains("connection: close"), "{case}: {answer}");
    }
}

#[tokio::test]
async fn closes_endless_senders() {
    let served = Served::new(RateLimits::default()).await;
    let head = served.head(
        "/agent-runs",
        &format!("{JSON}content-length: 9999999999\r\n"),
    );
    let mut client = TcpStream::connect(served.address).await.unwrap();
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut sent, piece) = (0_u64, vec![b' '; 1024 * 1024]);
    while client.write_all(&piece).await.is_ok() {
        sent += 1;
        assert!(sent < 1024, "a gigabyte was read for nothing");
    }
}

#[tokio::test]
async fn read_body_keeps_the_connection() {
    let served = Served::new(RateLimits::default()).await;
    let mut client = TcpStream::connect(served.address).await.unwrap();
    let body = format!("{{\"prompt\":{}}}", " ".repeat(50_000));
    let head = served.head(
        "/agent-runs",
        &format!("{JSON}content-length: {}\r\n", body.len()),
    );
    for _ in 0..2 {
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"]}") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "closed");
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
}
