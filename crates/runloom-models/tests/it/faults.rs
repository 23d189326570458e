//! Conformance cases of providers that fail, break the connection or send nothing.

use std::time::Duration;

use futures_util::StreamExt;
use runloom_models::Timeouts;
use runloom_ports::model::ModelEvent;
use runloom_protocol::outcome::ErrorClass;
use tokio::sync::oneshot;

use crate::cases::{Heard, ask, hear, listen};
use crate::providers::{API_KEY, Row};
use crate::server::{Reply, Server, Then};

/// The streams among the fixtures of this file, each `<case>.sse`.
pub const STREAMS: &[&str] = &["error_event", "garbage"];

/// The error bodies among the fixtures of this file, each `<case>.json`.
pub const ERROR_BODIES: &[&str] = &[
    "rate_limit",
    "server_error",
    "overloaded",
    "context",
    "auth",
];

pub async fn error_event_inside_the_stream(row: &Row) {
    let heard = hear(row, "error_event", ask("Hello")).await;
    assert_eq!(heard.said(), "Hel");
    let error = heard.error();
    assert_eq!(error.class, ErrorClass::Overloaded);
    assert!(error.retryable && !error.message.is_empty());
}

pub async fn cut_stream(row: &Row) {
    let heard = cut(row, || Then::Close).await;
    assert_eq!(heard.error().class, ErrorClass::Server);
    assert!(heard.error().retryable);
}

pub async fn broken_connection(row: &Row) {
    let heard = cut(row, || Then::Break).await;
    assert_eq!(heard.error().class, ErrorClass::Server, "{}", heard.error());
    assert!(heard.error().retryable);
}

pub async fn garbage_frame(row: &Row) {
    let heard = hear(row, "garbage", ask("Hello")).await;
    assert_eq!(heard.error().class, ErrorClass::Server);
    assert!(
        !heard.error().message.contains("neither"),
        "frames are not quoted"
    );
}

pub async fn rate_limit_with_retry_after(row: &Row) {
    let headers = vec![("retry-after", "7".to_owned())];
    let heard = refused(row, 429, headers, "rate_limit").await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::RateLimit, Some(429))
    );
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.retryable);
}

pub async fn server_error(row: &Row) {
    let heard = refused(row, 500, vec![], "server_error").await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::Server, Some(500))
    );
    assert!(error.retryable);
}

pub async fn overloaded(row: &Row) {
    for status in [503, 529] {
        let heard = refused(row, status, vec![], "overloaded").await;
        let error = heard.error();
        assert_eq!(
            (error.class, error.api_status),
            (ErrorClass::Overloaded, Some(status))
        );
        assert!(error.retryable);
    }
}

pub async fn context_window(row: &Row) {
    let heard = refused(row, 400, vec![], "context").await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::ContextWindow, Some(400))
    );
    assert!(!error.retryable);
}

pub async fn auth_error_shows_no_key(row: &Row) {
    let heard = refused(row, 401, vec![], "auth").await;
    let error = heard.error();
    assert_eq!(
        (error.class, error.api_status),
        (ErrorClass::Auth, Some(401))
    );
    let body = String::from_utf8(row.error_body("auth")).unwrap();
    assert!(body.contains(API_KEY), "the vendor quotes the key");
    assert!(!format!("{error:?}").contains(API_KEY));
    assert!(!error.retryable);
}

pub async fn hang_before_the_answer(row: &Row) {
    let heard = with_clocks(row, Reply::Never, first_byte(200)).await;
    assert_eq!(heard.error().class, ErrorClass::Timeout);
}

pub async fn hang_after_the_headers(row: &Row) {
    let reply = chunks(row, vec![], Then::Hang);
    let heard = with_clocks(row, reply, first_byte(200)).await;
    assert_eq!(heard.error().class, ErrorClass::Timeout);
}

pub async fn silence_inside_the_answer(row: &Row) {
    let reply = chunks(row, vec![half_of_text(row)], Then::Hang);
    let clocks = Timeouts {
        idle_ms: 200,
        ..Timeouts::default()
    };
    let heard = with_clocks(row, reply, clocks).await;
    assert_eq!(heard.error().class, ErrorClass::UpstreamDeadline);
}

pub async fn trickle_past_the_total_deadline(row: &Row) {
    // Bytes that never complete a frame: no pause is long enough for the idle timeout.
    let reply = chunks(row, vec![half_of_text(row)], Then::Trickle(b":".to_vec()));
    let clocks = Timeouts {
        total_ms: 1_500,
        ..Timeouts::default()
    };
    let heard = with_clocks(row, reply, clocks).await;
    assert_eq!(heard.error().class, ErrorClass::UpstreamDeadline);
}

pub async fn nobody_listens(row: &Row) {
    let server = Server::start([]).await;
    let model = row.open(&server);
    drop(server);
    let heard = listen(model.as_ref(), ask("Hello")).await;
    assert_eq!(heard.error().class, ErrorClass::Server);
    assert!(heard.error().retryable);
}

pub async fn dropping_the_stream_closes_the_connection(row: &Row) {
    let (teller, told) = oneshot::channel();
    let reply = chunks(row, vec![half_of_text(row)], Then::TellWhenGone(teller));
    let server = Server::start([reply]).await;
    let mut stream = row.open(&server).call(ask("Hello")).await.unwrap();
    while !matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))) {}
    drop(stream);
    tokio::time::timeout(Duration::from_secs(30), told)
        .await
        .expect("the server sees the client go")
        .unwrap();
}

async fn refused(
    row: &Row,
    status: u16,
    mut headers: Vec<(&'static str, String)>,
    fixture: &str,
) -> Heard {
    headers.push(("content-type", "application/json".to_owned()));
    let server = Server::start([Reply::Whole {
        status,
        headers,
        body: row.error_body(fixture),
    }])
    .await;
    listen(row.open(&server).as_ref(), ask("Hello")).await
}

async fn cut(row: &Row, then: fn() -> Then) -> Heard {
    // If the connection breaks before a byte was sent, the request is sent again.
    let reply = || chunks(row, vec![half_of_text(row)], then());
    let server = Server::start([reply(), reply()]).await;
    let heard = listen(row.open(&server).as_ref(), ask("Hello")).await;
    assert!(heard.done.is_none());
    heard
}

async fn with_clocks(row: &Row, reply: Reply, clocks: Timeouts) -> Heard {
    let server = Server::start([reply]).await;
    listen(row.open_with(&server, clocks).as_ref(), ask("Hello")).await
}

fn first_byte(first_byte_ms: u64) -> Timeouts {
    Timeouts {
        first_byte_ms,
        ..Timeouts::default()
    }
}

fn chunks(row: &Row, chunks: Vec<Vec<u8>>, then: Then) -> Reply {
    Reply::Chunks {
        content_type: row.content_type,
        chunks,
        then,
    }
}

/// The beginning of a response: some text, without the end.
fn half_of_text(row: &Row) -> Vec<u8> {
    let whole = row.fixture("text");
    whole[..whole.len() * 6 / 10].to_vec()
}
