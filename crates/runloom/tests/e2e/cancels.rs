//! A cancel proves itself, whatever the run was doing: the connection is dropped, and the receipt says what was
//! stopped.

use serde_json::{Value, json};

use crate::http::Api;
use crate::peer::{Peer, Reply};
use crate::server::{Server, settings};
use crate::sse::{Stream, replay, until};
use crate::tool_server::{is_call, mcp};

const PRICED: &str = r#"{"id": "m", "pricing": {"input": 1.0, "output": 1.0}}"#;

fn spec(model: &str, prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": model, "prompt": prompt,
           "tools": [{"kind": "local", "name": "act", "parameters": {"type": "object"}}]})
}

/// Cancels a run and checks what every receipt has; gives the receipt.
fn cancelled(api: &Api, run: &str) -> Value {
    assert_eq!(
        api.post(&format!("/agent-runs/{run}/cancel"), &json!({}))
            .status,
        200
    );
    let end = replay(api, run).unwrap().pop().unwrap();
    assert_eq!(end.kind(), "cancelled", "{}", end.json());
    let receipt = end.data();
    assert_eq!(receipt["reason"], "user", "{receipt}");
    let at = |name: &str| {
        receipt[name]
            .as_str()
            .unwrap_or_else(|| panic!("{receipt}"))
            .to_owned()
    };
    assert!(at("requestedAt") <= at("stoppedAt"), "{receipt}");
    assert!(receipt["tokens"]["outputTokens"].is_u64(), "{receipt}");
    let snapshot = api.get(&format!("/agent-runs/{run}")).json();
    assert_eq!(snapshot["status"], "cancelled");
    assert_eq!(snapshot["cancel"], receipt, "{snapshot}");
    receipt
}

#[test]
fn cancel_ends_a_streaming_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let peer = Peer::start(|_, _| {
        Reply::EventsThenSilence(vec![json!({
            "choices": [{"index": 0, "delta": {"content": "Hel"}}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3}
        })])
    });
    let model = server.provider(&peer.url, serde_json::from_str(PRICED).unwrap());
    let api = server.api();
    let run = api.run(&spec(&model, "hi"));
    until(
        &mut Stream::open(&api, &run, 0).unwrap().unwrap(),
        "assistant_delta",
    );
    let receipt = cancelled(&api, &run);
    peer.until_left();
    assert_eq!(receipt["interrupted"], json!(["model"]), "{receipt}");
    assert_eq!(receipt["tokens"]["inputTokens"], 12, "{receipt}");
    assert_eq!(receipt["tokens"]["outputTokens"], 3, "{receipt}");
    assert!(receipt["costUsd"].as_f64().unwrap() > 0.0, "{receipt}");
    // A cancel of what has ended changes nothing.
    assert_eq!(cancelled(&api, &run), receipt);
    assert_eq!(api.get("/usage").json()["total"]["outputTokens"], 3);
}

#[test]
fn cancel_stops_a_running_tool() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(
        folder.path(),
        &settings([("RUNLOOM_OUTBOUND__ALLOW_PRIVATE_NETWORKS", "true")]),
    );
    let tools = json!([{"name": "wait", "inputSchema": {"type": "object"}}]);
    let peer = mcp(tools, |_| Reply::EventsThenSilence(vec![]));
    let api = server.api();
    let mut body = spec("platform:demo", "call srv_wait {}");
    body["tools"] = json!([{"kind": "mcp", "name": "srv", "url": format!("{}/mcp", peer.url)}]);
    let run = api.run(&body);
    peer.until(1, is_call);
    let receipt = cancelled(&api, &run);
    assert_eq!(receipt["interrupted"], json!(["srv_wait"]), "{receipt}");
    // A closed connection means nothing in MCP: the tool server is told, so that it can stop.
    peer.until(1, |asked| asked.body["method"] == "notifications/cancelled");
}

#[test]
fn cancels_waiting_parked_and_queued_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(
        folder.path(),
        &settings([
            ("RUNLOOM_RUNS__PARK_AFTER_MS", "1"),
            ("RUNLOOM_RUNS__MAX_CONCURRENT", "1"),
        ]),
    );
    let api = server.api();
    let parked = api.run(&spec("platform:demo", "call act {}"));
    let call = until(
        &mut Stream::open(&api, &parked, 0).unwrap().unwrap(),
        "local_tool_call",
    )
    .data();
    // The only place is taken by the next run only when this one has left it.
    let busy = api.run(&spec("platform:demo", "slow 1s\ntokens 500"));
    until(
        &mut Stream::open(&api, &busy, 0).unwrap().unwrap(),
        "assistant_delta",
    );
    let queued = api.run(&spec("platform:demo", "say never"));
    assert_eq!(
        api.get(&format!("/agent-runs/{queued}")).json()["status"],
        "queued"
    );
    assert_eq!(
        api.post(&format!("/agent-runs/{queued}/cancel"), &json!({}))
            .status,
        200
    );
    assert_eq!(
        api.post(&format!("/agent-runs/{parked}/cancel"), &json!({}))
            .status,
        200
    );
    let receipt = cancelled(&api, &busy);
    assert_eq!(receipt["interrupted"], json!(["model"]), "{receipt}");
    let receipt = cancelled(&api, &parked);
    assert_eq!(receipt["interrupted"], json!(["act"]), "{receipt}");
    let receipt = cancelled(&api, &queued);
    assert_eq!(
        (&receipt["turns"], &receipt["interrupted"]),
        (&json!(0), &Value::Null),
        "{receipt}"
    );
    let late = json!({"toolUseId": call["toolUseId"], "result": "late"});
    assert_eq!(
        api.post(&format!("/agent-runs/{parked}/tool-results"), &late)
            .status,
        200
    );
}

#[test]
fn cancels_between_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let peer = Peer::start(|_, _| {
        Reply::Plain(429, vec![("Retry-After", "25".to_owned())], "{}".to_owned())
    });
    let model = server.provider(&peer.url, json!({"id": "m"}));
    let api = server.api();
    let run = api.run(&spec(&model, "hi"));
    peer.until(1, |_| true);
    let receipt = cancelled(&api, &run);
    assert!(receipt["turns"].as_u64().unwrap() <= 1, "{receipt}");
    assert_eq!(peer.asked().len(), 1);
}

#[test]
fn cancel_keeps_finished_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let api = server.api();
    let run = api.run(&spec("platform:demo", "say done"));
    let before = replay(&api, &run).unwrap();
    assert_eq!(
        api.post(&format!("/agent-runs/{run}/cancel"), &json!({}))
            .status,
        200
    );
    assert_eq!(replay(&api, &run).unwrap(), before);
    let snapshot = api.get(&format!("/agent-runs/{run}")).json();
    assert_eq!(
        (&snapshot["status"], &snapshot["cancel"]),
        (&json!("succeeded"), &Value::Null)
    );
}
