//! MCP sessions: expired ones, errors without a request id, concurrent calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join_all;
use reqwest::Method;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::mcp::{ordinary, server};
use crate::peers::{Peer, ReceivedRequest, TestBed, open_policy, result};

fn refs(peer: &Peer) -> Value {
    json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}])
}

fn refusal(code: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(code).unwrap();
    (status, axum::Json(body)).into_response()
}

/// A server that knows only its latest session and answers 400 to others, as many servers do.
async fn forgetful(
    refuse: impl Fn(&ReceivedRequest) -> Value + Send + Sync + 'static,
) -> (Peer, Forget) {
    let epoch = Arc::new(AtomicUsize::new(1));
    let forget = Forget(Arc::clone(&epoch));
    let peer = server(move |received| {
        let known = format!("s{}", epoch.load(Ordering::SeqCst));
        if received.method == Method::POST && received.rpc_method() == "initialize" {
            let mut response = ordinary(received);
            let headers = response.headers_mut();
            headers.insert("mcp-session-id", known.parse().unwrap());
            return Some(response);
        }
        let stale = received
            .header("mcp-session-id")
            .is_some_and(|id| id != known);
        stale.then(|| refusal(400, &refuse(received)))
    })
    .await;
    (peer, forget)
}

struct Forget(Arc<AtomicUsize>);

impl Forget {
    fn now(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn no_valid_session(id: &Value) -> Value {
    let message = "Bad Request: No valid session ID provided";
    json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": message}, "id": id})
}

#[tokio::test]
async fn error_without_the_requests_id_ends_the_call() {
    let words = json!({"code": -32000, "message": "Too many requests"});
    let bodies = [
        json!({"jsonrpc": "2.0", "error": words, "id": null}),
        json!({"jsonrpc": "2.0", "error": words}),
        json!({"jsonrpc": "2.0", "error": words, "id": "server-error"}),
        json!({"jsonrpc": "2.0", "error": words, "id": 4711}),
    ];
    for status in [200, 400, 429, 500] {
        for body in bodies.clone() {
            let peer = server(move |received| {
                (received.rpc_method() == "tools/call").then(|| refusal(status, &body))
            })
            .await;
            let bed = TestBed::new();
            let (context, tools) = bed.resolve(&refs(&peer)).await;
            let outcome = bed.call(&context, &tools[0], json!({})).await;
            assert!(outcome.is_error, "{outcome:?}");
            assert!(outcome.content.contains("Too many"), "{status} {outcome:?}");
            assert_eq!(peer.count("tools/call"), 1);
        }
    }
}

#[tokio::test]
async fn reopens_a_session_that_the_server_does_not_know() {
    for id in [json!(null), json!("server-error")] {
        let (peer, forget) = forgetful(move |_| no_valid_session(&id)).await;
        let bed = TestBed::new();
        let (context, tools) = bed.resolve(&refs(&peer)).await;
        forget.now();
        let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
        assert_eq!(outcome.content, "hi", "{outcome:?}");
        assert_eq!(peer.count("initialize"), 2);
        assert_eq!(peer.count("tools/call"), 2, "refused, then made");
    }
}

#[tokio::test]
async fn error_that_mentions_the_session_is_not_repeated() {
    let (peer, forget) = forgetful(|received| no_valid_session(&received.body["id"])).await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    forget.now();
    let refused = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert!(refused.content.contains("No valid session"), "{refused:?}");
    assert_eq!(peer.count("tools/call"), 1);
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi", "{outcome:?}");
}

#[tokio::test]
async fn other_errors_that_mention_a_session_are_not_repeated() {
    let peer = server(|received| {
        if received.rpc_method() == "initialize" {
            let mut response = ordinary(received);
            let headers = response.headers_mut();
            headers.insert("mcp-session-id", "s1".parse().unwrap());
            return Some(response);
        }
        let said = json!({"detail": "Checkout session already completed"});
        (received.rpc_method() == "tools/call").then(|| refusal(400, &said))
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let refused = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert!(refused.content.contains("Checkout session"), "{refused:?}");
    assert_eq!(peer.count("tools/call"), 1);
    assert_eq!(peer.count("initialize"), 1);
}

#[tokio::test]
async fn listing_timeout_closes_the_session() {
    let peer = Peer::start(|received| async move {
        if received.rpc_method() == "tools/list" {
            std::future::pending::<()>().await;
        }
        ordinary(&received)
    })
    .await;
    // Long enough to connect on a busy machine.
    let limits = ToolLimits {
        resolve_timeout: Duration::from_secs(3),
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    for turn in 1..=2 {
        let (_, tools) = bed.resolve(&refs(&peer)).await;
        assert_eq!(tools[0].name, "docs_unavailable");
        assert_eq!(peer.count("initialize"), turn);
    }
}

#[tokio::test]
async fn concurrent_calls_reach_the_server() {
    const CALLS: usize = 40;
    let all = Arc::new(Barrier::new(CALLS));
    let peer = Peer::start(move |received| {
        let all = Arc::clone(&all);
        async move {
            if received.rpc_method() == "tools/call" {
                // No call is answered before all have arrived.
                all.wait().await;
                let text = json!({"content": [{"type": "text", "text": "together"}]});
                return result(&received, &text);
            }
            ordinary(&received)
        }
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let calls = (0..CALLS).map(|_| bed.call(&context, &tools[0], json!({})));
    for outcome in join_all(calls).await {
        assert_eq!(outcome.content, "together", "{outcome:?}");
    }
}
