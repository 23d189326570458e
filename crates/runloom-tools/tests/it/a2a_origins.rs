//! The headers of an agent go to the origin of its `agentCardUrl` only.

use reqwest::Method;
use serde_json::{Value, json};

use crate::a2a::said;
use crate::peers::{Peer, TestBed, redirect, reply, result, status};

async fn ask(url: &str) -> runloom_ports::tools::Outcome {
    let bed = TestBed::new();
    let refs = json!([{"kind": "a2a", "name": "weather", "agentCardUrl": url,
                       "headers": {"Authorization": "Bearer secret", "X-Key": "other secret"}}]);
    let (context, tools) = bed.resolve(&refs).await;
    let message: Value = json!({"message": "What is the weather?"});
    bed.call(&context, &tools[0], message).await
}

/// An agent that answers every message, without a card.
async fn answering() -> Peer {
    Peer::start(|received| async move {
        match received.method {
            Method::POST => result(&received, &said("sunny")),
            _ => status(404),
        }
    })
    .await
}

fn card(endpoint: &str) -> Value {
    json!({"name": "Weather", "url": endpoint, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"})
}

fn got_a_secret(peer: &Peer) -> bool {
    let received = peer.received();
    assert!(!received.is_empty());
    let is_secret =
        |value: &reqwest::header::HeaderValue| value.to_str().is_ok_and(|v| v.contains("secret"));
    received
        .iter()
        .any(|received| received.headers.values().any(is_secret))
}

#[tokio::test]
async fn an_endpoint_at_another_origin_gets_no_headers() {
    let other = answering().await;
    let endpoint = format!("{}/a2a", other.url);
    let home = Peer::start(move |_| {
        let card = card(&endpoint);
        async move { reply(&card) }
    })
    .await;
    let outcome = ask(&home.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
    assert!(got_a_secret(&home));
    assert!(!got_a_secret(&other));
}

#[tokio::test]
async fn a_card_behind_a_redirect_belongs_to_its_final_origin() {
    let other = Peer::start(|received| async move {
        match (&received.method, received.path.as_str()) {
            (&Method::GET, "/moved.json") => reply(&card("/a2a")),
            (&Method::POST, "/a2a") => result(&received, &said("sunny")),
            _ => status(404),
        }
    })
    .await;
    let moved = format!("{}/moved.json", other.url);
    let home = Peer::start(move |_| {
        let answer = redirect(302, &moved);
        async move { answer }
    })
    .await;
    let outcome = ask(&home.url).await;
    assert_eq!(outcome.content, "sunny", "{outcome:?}");
    assert!(!got_a_secret(&other));
    assert!(home.received().iter().all(|h| h.method == Method::GET));
}

#[tokio::test]
async fn a_missing_credential_is_explained() {
    let other = Peer::start(|_| async { status(401) }).await;
    let endpoint = format!("{}/a2a", other.url);
    let home = Peer::start(move |_| {
        let card = card(&endpoint);
        async move { reply(&card) }
    })
    .await;
    let outcome = ask(&home.url).await;
    assert!(outcome.is_error);
    assert!(
        outcome.content.contains("another origin than agentCardUrl"),
        "{outcome:?}"
    );
}
