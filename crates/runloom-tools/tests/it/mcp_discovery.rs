//! Servers that do not know `server/discover`, and the runs that share a session.

use axum::response::Response;
use runloom_protocol::id::RunId;
use serde_json::{Value, json};

use crate::mcp::{ordinary, server};
use crate::peers::{Peer, ReceivedRequest, TestBed, hanging, result, status, typed};

fn refs(peer: &Peer) -> Value {
    json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}])
}

/// Checks that the tools of a server are found although it answers `server/discover` in this way.
async fn check_falls_back(answer: impl Fn(&ReceivedRequest) -> Response + Send + Sync + 'static) {
    let peer = server(move |received| {
        (received.rpc_method() == "server/discover").then(|| answer(received))
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    assert_eq!(tools[0].name, "docs_echo", "{tools:?}");
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi");
    assert_eq!(peer.count("initialize"), 1);
}

#[tokio::test]
async fn unexpected_answers_to_discovery_fall_back_to_initialize() {
    check_falls_back(|received| result(received, &json!({}))).await;
    check_falls_back(|received| {
        result(
            received,
            &json!({"supportedVersions": ["2025-06-18"], "capabilities": {}}),
        )
    })
    .await;
    check_falls_back(|_| status(202)).await;
    check_falls_back(|_| status(204)).await;
    check_falls_back(|_| status(500)).await;
    check_falls_back(|_| typed("text/html", "<html>Welcome</html>")).await;
    check_falls_back(|_| typed("application/json", "not JSON")).await;
    check_falls_back(|_| typed("text/event-stream", "")).await;
}

#[tokio::test]
async fn silence_after_discovery_falls_back_to_initialize() {
    check_falls_back(|_| typed("text/event-stream", hanging(": wait\n\n"))).await;
}

#[tokio::test]
async fn a_refused_caller_is_told_so() {
    let peer =
        server(|received| (received.rpc_method() == "server/discover").then(|| status(401))).await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(outcome.content.contains("401"), "{outcome:?}");
    assert_eq!(peer.count("initialize"), 0);
}

/// A server whose sessions count their calls.
async fn counting() -> Peer {
    use std::collections::HashMap;
    use std::sync::Mutex;
    let calls: Mutex<HashMap<String, usize>> = Mutex::default();
    server(move |received| {
        let mut calls = calls.lock().unwrap();
        if received.rpc_method() == "initialize" {
            let session = format!("s{}", calls.len());
            calls.insert(session.clone(), 0);
            let mut response = ordinary(received);
            let headers = response.headers_mut();
            headers.insert("mcp-session-id", session.parse().unwrap());
            return Some(response);
        }
        if received.rpc_method() != "tools/call" {
            return None;
        }
        let session = received.header("mcp-session-id").unwrap();
        let count = calls.get_mut(session).unwrap();
        *count += 1;
        let text = json!({"content": [{"type": "text", "text": count.to_string()}]});
        Some(result(received, &text))
    })
    .await
}

#[tokio::test]
async fn runs_share_a_session_only_by_choice() {
    for (session, expected) in [("run", ["1", "2", "1"]), ("workspace", ["1", "2", "3"])] {
        let peer = counting().await;
        let bed = TestBed::new();
        let mut refs = refs(&peer);
        refs[0]["session"] = json!(session);
        let mut counts = Vec::new();
        for run in [1, 1, 2] {
            let run = RunId::from_suffix(run);
            let (context, tools) = bed.resolve_for("acme", run, &refs).await;
            counts.push(bed.call(&context, &tools[0], json!({})).await.content);
        }
        assert_eq!(counts, expected, "{session}");
        assert_eq!(peer.count("tools/list"), 1, "the listing is shared");
    }
}
