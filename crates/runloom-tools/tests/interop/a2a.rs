//! Agents of the official package, in both protocol versions and bindings.

use std::sync::Arc;

use runloom_ports::tools::Outcome;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::peer::{Peer, TestBed};

async fn ask(peer: &Peer, message: &str, cancel: CancellationToken) -> Outcome {
    let bed = TestBed::new();
    let refs = json!([{"kind": "a2a", "name": "real", "agentCardUrl": peer.url}]);
    let (context, tools) = bed.resolve(&refs).await;
    let input = json!({"message": message});
    bed.call(&context, &tools[0], input, cancel).await
}

async fn agent_works(environment: &str, script: &str, binding: &str) {
    let peer = Peer::python(environment, script, binding);
    let told = |message: &'static str| ask(&peer, message, CancellationToken::new());
    let received = told("hello").await;
    assert_eq!(
        (received.content.as_str(), received.is_error),
        ("heard: hello", false)
    );
    let done = told("task now").await;
    assert!(!done.is_error, "{done:?}");
    let mut lines = done.content.lines();
    assert_eq!(lines.next(), Some("done: task now"));
    let data: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(data["degrees"].as_f64(), Some(21.0));
    let input = told("ask me").await;
    assert!(
        input.is_error && input.content.contains("which city?"),
        "{input:?}"
    );
}

async fn check_task_is_cancelled(environment: &str, script: &str, binding: &str) {
    let peer = Arc::new(Peer::python(environment, script, binding));
    let cancel = CancellationToken::new();
    let bed = TestBed::new();
    let refs = json!([{"kind": "a2a", "name": "real", "agentCardUrl": peer.url}]);
    let (context, tools) = bed.resolve(&refs).await;
    let calling = bed.call(
        &context,
        &tools[0],
        json!({"message": "wait"}),
        cancel.clone(),
    );
    let cancelling = async {
        said(&peer, "working on wait").await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error);
    said(&peer, "cancelled ").await;
}

async fn said(peer: &Arc<Peer>, words: &'static str) {
    let peer = Arc::clone(peer);
    let line = tokio::task::spawn_blocking(move || peer.line_with(words));
    line.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_0_3_over_json_rpc() {
    agent_works("a2a-0.3", "a2a_agent_0_3.py", "jsonrpc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_0_3_over_http() {
    agent_works("a2a-0.3", "a2a_agent_0_3.py", "rest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_1_0_over_json_rpc() {
    agent_works("a2a-1", "a2a_agent_1_0.py", "jsonrpc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_1_0_over_http() {
    agent_works("a2a-1", "a2a_agent_1_0.py", "rest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_tasks_of_both_versions() {
    check_task_is_cancelled("a2a-0.3", "a2a_agent_0_3.py", "jsonrpc").await;
    check_task_is_cancelled("a2a-1", "a2a_agent_1_0.py", "rest").await;
}
