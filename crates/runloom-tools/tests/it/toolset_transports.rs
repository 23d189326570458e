//! Toolsets over server-sent events and as processes.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::mcp::tool;
use crate::peers::{Peer, ReceivedRequest, status, typed};
use crate::toolsets::{ToolsetBed, refs};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stdio_server.py");

type Line = UnboundedSender<Result<Bytes, std::io::Error>>;

fn event(name: &str, data: &str) -> Result<Bytes, std::io::Error> {
    Ok(Bytes::from(format!("event: {name}\ndata: {data}\n\n")))
}

/// A server of the transport of 2024-11-05. The tool `break` ends the stream without an answer.
async fn sse_server(endpoint: &'static str) -> Peer {
    let streams: Arc<Mutex<Option<Line>>> = Arc::default();
    Peer::start(move |received| {
        let streams = Arc::clone(&streams);
        async move { answer(&received, &streams, endpoint) }
    })
    .await
}

fn answer(received: &ReceivedRequest, streams: &Mutex<Option<Line>>, endpoint: &str) -> Response {
    if received.method == Method::GET {
        let (line, mut lines) = unbounded_channel();
        line.send(event("endpoint", endpoint)).unwrap();
        *streams.lock().unwrap() = Some(line);
        let lines = futures_util::stream::poll_fn(move |cx| lines.poll_recv(cx));
        return typed("text/event-stream", Body::from_stream(lines.boxed()));
    }
    let result = match received.rpc_method() {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "old", "version": "1"}}),
        "tools/list" => json!({"tools": [tool("echo"), tool("break")]}),
        "tools/call" if received.body["params"]["name"] == "break" => {
            *streams.lock().unwrap() = None;
            return status(202);
        }
        "tools/call" => {
            let text = received.body["params"]["arguments"]["text"].clone();
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => return status(202),
    };
    let message = json!({"jsonrpc": "2.0", "id": received.body["id"], "result": result});
    if let Some(line) = &*streams.lock().unwrap() {
        let _ = line.send(event("message", &message.to_string()));
    }
    status(202)
}

fn sse(peer: &Peer) -> Value {
    json!({"transport": "sse", "serverUrl": format!("{}/sse", peer.url),
           "headers": {"Authorization": "Bearer {{secret:TOKEN}}"}})
}

#[tokio::test]
async fn calls_tools_over_server_sent_events_and_reconnects() {
    let peer = sse_server("/messages?session=1").await;
    let bed = ToolsetBed::new("old", &sse(&peer)).bed;
    let (context, tools) = bed.resolve(&refs("old")).await;
    assert_eq!(tools[0].name, "old_echo", "{tools:?}");
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!((outcome.content.as_str(), outcome.is_error), ("hi", false));
    let received = peer.received();
    assert!(
        received
            .iter()
            .all(|h| h.header("authorization") == Some("Bearer canary-0815"))
    );
    assert!(
        received
            .iter()
            .skip(1)
            .all(|h| h.path == "/messages" && h.query == "session=1")
    );
    let outcome = bed.call(&context, &tools[1], json!({})).await;
    assert!(outcome.is_error, "{outcome:?}");
    assert_eq!(peer.count("tools/call"), 2, "nothing is repeated");
    let outcome = bed
        .call(&context, &tools[0], json!({"text": "again"}))
        .await;
    assert_eq!(outcome.content, "again");
    assert_eq!(peer.count("initialize"), 2);
}

#[tokio::test]
async fn messages_are_not_posted_to_another_origin() {
    let peer = sse_server("http://127.0.0.2:9/messages").await;
    let bed = ToolsetBed::new("old", &sse(&peer)).bed;
    let (context, tools) = bed.resolve(&refs("old")).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(outcome.content.contains("another origin"), "{outcome:?}");
}

fn stdio(habits: &[&str]) -> Value {
    let mut args = vec![SCRIPT];
    args.extend(habits);
    json!({"transport": "stdio", "command": "python3", "args": args, "env": {"KEY": "{{secret:TOKEN}}"}})
}

#[tokio::test]
async fn a_process_is_shared_by_a_workspace_and_started_again_after_it_died() {
    let notes = std::env::temp_dir().join(format!("runloom-toolset-{}", std::process::id()));
    std::fs::write(&notes, "").unwrap();
    let path = notes.to_str().unwrap();
    let bed = ToolsetBed::new("files", &stdio(&["note-start", path])).bed;
    let started = || std::fs::read_to_string(path).unwrap().lines().count();
    assert_eq!(started(), 0, "nothing is started before a run needs it");
    let (context, tools) = bed.resolve(&refs("files")).await;
    let named = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, named("files_pid"), json!({})).await;
    let second = bed.call(&context, named("files_pid"), json!({})).await;
    assert_eq!(first.content, second.content);
    let environment = bed
        .call(&context, named("files_environment"), json!({}))
        .await;
    assert!(
        environment.content.contains("\"KEY\": \"***\""),
        "{environment:?}"
    );
    let died = bed.call(&context, named("files_die"), json!({})).await;
    assert!(died.is_error, "{died:?}");
    assert_eq!(started(), 1, "a call that was in flight is not repeated");
    let again = bed.call(&context, named("files_pid"), json!({})).await;
    assert!(
        !again.is_error && again.content != first.content,
        "{again:?}"
    );
    let (other, _) = bed.resolve_in("other", &refs("files")).await;
    let elsewhere = bed.call(&other, named("files_pid"), json!({})).await;
    assert_ne!(
        elsewhere.content, again.content,
        "workspaces share no process"
    );
    assert_eq!(started(), 3);
    std::fs::remove_file(&notes).unwrap();
}
