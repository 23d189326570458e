//! The server on a real socket: it answers, and it stops.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use runloom_engine::metrics::METRICS;
use runloom_http::ConnectionLimits;
use runloom_ports::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far beyond what a healthy server needs; only a hanging one meets it.
const PATIENCE: Duration = Duration::from_secs(20);

/// More connections than a test has.
const MANY: usize = 1_000;

async fn connect(listener: &TcpListener, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

fn router() -> Router {
    let endless = || async {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"first\n"))]);
        Body::from_stream(first.chain(stream::pending()))
    };
    Router::new()
        .route("/short", get(|| async { "short" }))
        .route("/endless", get(endless))
}

async fn read_until(client: &mut TcpStream, end: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(end) {
        let count = client.read_buf(&mut seen).await.unwrap();
        assert_ne!(
            count,
            0,
            "closed after {:?}",
            String::from_utf8_lossy(&seen)
        );
    }
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = connect(&listener, "/short").await;
    let shutdown = Shutdown::default();
    let serving = runloom_http::serve(
        listener,
        router(),
        ConnectionLimits::total(MANY),
        shutdown.clone(),
        PATIENCE,
    );
    let talking = async {
        read_until(&mut client, "short").await;
        shutdown.close_connections();
    };
    let both = async { tokio::join!(serving, talking).0 };
    let ended = tokio::time::timeout(PATIENCE / 2, both).await;
    ended
        .expect("the drain waited for an idle connection")
        .unwrap();
}

#[tokio::test]
async fn endless_stream_is_closed_after_the_drain() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = connect(&listener, "/endless").await;
    let shutdown = Shutdown::default();
    let drain = Duration::from_millis(20);
    let serving = runloom_http::serve(
        listener,
        router(),
        ConnectionLimits::total(MANY),
        shutdown.clone(),
        drain,
    );
    let talking = async {
        read_until(&mut client, "first").await;
        shutdown.close_connections();
        let mut rest = Vec::new();
        // Closed or reset: either way the client is not left waiting.
        let _ = client.read_to_end(&mut rest).await;
    };
    let both = async { tokio::join!(serving, talking).0 };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    ended
        .expect("the server waited for an endless stream")
        .unwrap();
}

#[tokio::test]
async fn accept_queue_is_long() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    let crowd = allowed.trim().parse().unwrap_or(128).min(300);
    let listener = runloom_http::listen("127.0.0.1:0").await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..crowd {
        // One for whom there is no room would be left waiting.
        let client = tokio::time::timeout(PATIENCE, connect(&listener, "/short")).await;
        clients.push(client.expect("the backlog is full"));
    }
    let shutdown = Shutdown::default();
    let serving = runloom_http::serve(
        listener,
        router(),
        ConnectionLimits::total(MANY),
        shutdown.clone(),
        PATIENCE,
    );
    let talking = async {
        for client in &mut clients {
            read_until(client, "short").await;
        }
        shutdown.close_connections();
    };
    let both = async { tokio::join!(serving, talking).0 };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    ended.expect("some were never answered").unwrap();
}

#[tokio::test]
async fn client_over_the_limit_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut first = connect(&listener, "/short").await;
    let mut second = connect(&listener, "/short").await;
    let shutdown = Shutdown::default();
    let serving = runloom_http::serve(
        listener,
        router(),
        ConnectionLimits::total(1),
        shutdown.clone(),
        PATIENCE,
    );
    let talking = async {
        read_until(&mut first, "short").await;
        assert!(METRICS.connections.get() >= 1);
        // The first could have been answered a second time by now, so the second had its chance too.
        first
            .write_all(b"GET /short HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        read_until(&mut first, "short").await;
        let waiting = second.try_read(&mut [0; 1]);
        assert_eq!(waiting.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(first);
        read_until(&mut second, "short").await;
        shutdown.close_connections();
    };
    let both = async { tokio::join!(serving, talking).0 };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    ended.expect("the second was never answered").unwrap();
}

#[tokio::test]
async fn an_address_with_too_many_connections_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut first = connect(&listener, "/short").await;
    let mut second = connect(&listener, "/short").await;
    let shutdown = Shutdown::default();
    let limits = ConnectionLimits {
        total: MANY,
        per_address: 1,
    };
    let serving = runloom_http::serve(listener, router(), limits, shutdown.clone(), PATIENCE);
    let talking = async {
        read_until(&mut first, "short").await;
        let mut answer = String::new();
        second.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.contains(&length), "{answer}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let message = body["message"].as_str().unwrap();
        assert!(
            message.contains("server.max_connections_per_address"),
            "{message}"
        );
        shutdown.close_connections();
    };
    let both = async { tokio::join!(serving, talking).0 };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    ended.expect("the second was never refused").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut silent = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    silent
        .write_all(b"GET /short HTTP/1.1\r\nhost")
        .await
        .unwrap();
    let shutdown = Shutdown::default();
    let limits = ConnectionLimits::total(MANY);
    let began = tokio::time::Instant::now();
    let serving = runloom_http::serve(listener, router(), limits, shutdown.clone(), PATIENCE);
    let talking = async {
        let _ = silent.read_to_end(&mut Vec::new()).await;
        shutdown.close_connections();
    };
    tokio::join!(serving, talking).0.unwrap();
    // The clock is paused: it moves only when every task waits.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn listens_by_name_and_refuses_taken_ports() {
    let listener = runloom_http::listen("localhost:0").await.unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let refused = runloom_http::listen(&taken).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    assert!(runloom_http::listen("no address").await.is_err());
}
