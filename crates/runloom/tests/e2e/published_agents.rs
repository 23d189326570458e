//! Agents for others: their tasks and calls outlive connections and processes, are cancelled as their protocols say,
//! and Runloom is a client of itself.

use std::io::Write;
use std::time::Instant;

use serde_json::{Value, json};

use crate::http::{Answer, Reading, connect, request};
use crate::server::{PATIENCE, Server, settings};
use crate::sse::{Frame, Stream, replay};

const MODERN: [(&str, &str); 3] = [
    ("MCP-Protocol-Version", "2026-07-28"),
    ("Mcp-Method", "tools/call"),
    ("Mcp-Name", "support"),
];

const HANDSHAKE: [(&str, &str); 2] = [
    ("MCP-Protocol-Version", "2025-11-25"),
    ("Mcp-Session-Id", "mcp_one"),
];

/// A server that offers the agent `support`.
fn server(folder: &std::path::Path) -> Server {
    let server = Server::dev(
        folder,
        &settings([("RUNLOOM_OUTBOUND__ALLOW_PRIVATE_NETWORKS", "true")]),
    );
    agent(
        &server,
        "support",
        &json!({"systemPrompt": "s", "modelId": "platform:demo"}),
    );
    server
}

fn agent(server: &Server, slug: &str, body: &Value) {
    let path = format!("/api/admin/v1/workspaces/demo/agents/{slug}");
    let made = server.admin("PUT", &path, body);
    assert!(made.status < 300, "{made:?}");
}

fn headers<'a>(key: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        ("X-API-Key", key),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    usual.iter().chain(more).copied().collect()
}

/// A JSON-RPC request, answered whole.
fn ask(server: &Server, path: &str, method: &str, params: &Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let key = server.api().key;
    let headers = headers(&key, &[]);
    let answer = request(&server.address, "POST", path, &headers, body.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// A JSON-RPC request whose answer is a stream that is still open.
fn open(
    server: &Server,
    path: &str,
    more: &[(&str, &str)],
    method: &str,
    params: &Value,
) -> Stream {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let key = server.api().key;
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers(&key, more) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = connect(&server.address).unwrap();
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .unwrap();
    let reading = Reading::begin(stream).unwrap();
    assert_eq!(reading.status, 200, "{reading:?}");
    Stream::of(reading)
}

fn rest(mut stream: Stream) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(frame) = stream.next().unwrap() {
        messages.push(frame.json());
    }
    messages
}

const SUPPORT: &str = "/api/a2a/demo/agents/support";

fn say(text: &str) -> Value {
    json!({"message": {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": text}]}})
}

fn call(text: &str) -> Value {
    json!({"name": "support", "arguments": {"message": text}, "_meta": {
        "progressToken": "p", "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}})
}

/// The one run that came through a door, as soon as it is there.
fn run_via(server: &Server, door: &str) -> String {
    let begun = Instant::now();
    loop {
        let path = format!("/agent-runs?metadata=runloom.via:{door}");
        let runs = server.api().get(&path).json()["runs"].clone();
        if let Some(run) = runs[0]["id"].as_str() {
            return run.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "no run came through {door}");
    }
}

/// The type of a run's last event, once it is there.
fn end_of(server: &Server, run: &str) -> String {
    let frames = replay(&server.api(), run).unwrap();
    frames
        .last()
        .map(Frame::kind)
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn closing_early_cancels_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let params = call("slow 50ms\ntokens 100000");
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let (body, key) = (body.to_string(), server.api().key);
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers(&key, &MODERN) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let ask = || {
        let mut connection = connect(&server.address).unwrap();
        let sent = connection.write_all(format!("{head}\r\n{body}").as_bytes());
        sent.unwrap();
        connection
    };
    // Some are closed before their run begins, some after, some in between; the last when there is a run.
    (0..20).for_each(|_| drop(ask()));
    let last = ask();
    let run = run_via(&server, "mcp");
    drop(last);
    assert_eq!(end_of(&server, &run), "cancelled");
    let left = || {
        let path = "/agent-runs?metadata=runloom.via:mcp&limit=50";
        let runs = server.api().get(path).json()["runs"].clone();
        let runs = runs.as_array().cloned().unwrap_or_default();
        let ended = |run: &Value| run["status"] == "cancelled";
        runs.iter().filter(|run| !ended(run)).count()
    };
    let begun = Instant::now();
    while left() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} calls go on", left());
    }
}

#[test]
fn task_survives_client_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = server(folder.path());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": say("slow 20ms\ntokens 60")}).to_string();
    let key = first.api().key;
    let mut waiting = connect(&first.address).unwrap();
    let head = format!(
        "POST {SUPPORT} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    waiting
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let task = run_via(&first, "a2a");
    drop(waiting);
    first.kill();

    let second = server(folder.path());
    let named = json!({"id": task});
    let told = rest(open(&second, SUPPORT, &[], "tasks/resubscribe", &named));
    assert_eq!(told[0]["result"]["kind"], "task", "{told:?}");
    let end = &told.last().unwrap()["result"];
    assert_eq!(
        (&end["status"]["state"], &end["final"]),
        (&json!("completed"), &json!(true)),
        "{end}"
    );
    let found = ask(&second, SUPPORT, "GetTask", &named).json();
    let text = found["result"]["artifacts"][0]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert_eq!(text.split_whitespace().count(), 60, "{text}");
}

#[test]
fn streams_the_growing_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let told = rest(open(
        &server,
        SUPPORT,
        &[],
        "SendStreamingMessage",
        &say("tokens 30"),
    ));
    let said: String = told
        .iter()
        .filter_map(|message| {
            message["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str()
        })
        .collect();
    assert_eq!(said.split_whitespace().count(), 30, "{told:?}");
    let end = &told.last().unwrap()["result"]["statusUpdate"];
    assert_eq!(end["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(end["metadata"]["mantyx"]["turns"], 1);
}

#[test]
fn notification_cancels_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let mut stream = open(&server, "/mcp", &HANDSHAKE, "tools/call", &call("hang"));
    while stream.next().unwrap().unwrap().json()["method"] != "notifications/progress" {}
    let key = server.api().key;
    let cancel = |number: Value, session: &str| {
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}});
        let headers = headers(&key, &[("Mcp-Session-Id", session)]);
        let answer = request(
            &server.address,
            "POST",
            "/mcp",
            &headers,
            body.to_string().as_bytes(),
        );
        assert_eq!(answer.unwrap().status, 202);
    };
    cancel(json!("7"), "mcp_one");
    cancel(json!(8), "mcp_one");
    cancel(json!(7), "mcp_two");
    let run = run_via(&server, "mcp");
    assert_eq!(
        server.api().get(&format!("/agent-runs/{run}")).json()["status"],
        "running"
    );
    cancel(json!(7), "mcp_one");
    let end = rest(stream).pop().unwrap();
    assert_eq!(
        (&end["id"], &end["result"]["isError"]),
        (&json!(7), &json!(true)),
        "{end}"
    );
    assert_eq!(end_of(&server, &run), "cancelled");
}

#[test]
fn stateless_close_cancels_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let mut stream = open(&server, "/mcp", &MODERN, "tools/call", &call("hang"));
    stream.next().unwrap().unwrap();
    drop(stream);
    assert_eq!(end_of(&server, &run_via(&server, "mcp")), "cancelled");
}

#[test]
fn call_resumes_at_another_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = server(folder.path());
    let mut stream = open(
        &first,
        "/mcp",
        &HANDSHAKE,
        "tools/call",
        &call("slow 20ms\ntokens 60"),
    );
    let place = stream
        .next()
        .unwrap()
        .unwrap()
        .field("id")
        .unwrap()
        .to_owned();
    first.kill();
    drop(stream);

    let second = server(folder.path());
    let key = second.api().key;
    let headers = headers(&key, &[("Last-Event-ID", &place)]);
    let answer = request(&second.address, "GET", "/mcp", &headers, b"").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let data = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back()
        .unwrap();
    let end: Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (&end["id"], &end["result"]["isError"]),
        (&json!(7), &json!(false)),
        "{end}"
    );
    let said = end["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(said.split_whitespace().count(), 60, "{said}");
}

#[test]
fn run_calls_agents_of_another_server() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (near, far) = (server(here.path()), server(there.path()));
    let key = |usage: &str| format!("Bearer {}", far.key("demo", &json!({"usage": usage})));
    let base = format!("http://{}", far.address);
    agent(
        &near,
        "front",
        &json!({"systemPrompt": "s", "modelId": "platform:demo", "tools": [
            {"kind": "a2a", "name": "peer", "agentCardUrl": format!("{base}{SUPPORT}/.well-known/agent-card.json"),
             "headers": {"Authorization": key("a2a")}},
            {"kind": "mcp", "name": "inner", "url": format!("{base}/mcp"), "headers": {"Authorization": key("mcp")}},
        ]}),
    );
    let prompt = "call peer {\"message\": \"say over A2A\"}\ncall inner_support {\"message\": \"say over MCP\"}\nsay Both.";
    let reply = ask(
        &near,
        "/api/a2a/demo/agents/front",
        "message/send",
        &say(prompt),
    )
    .json();
    assert_eq!(reply["result"]["parts"][0]["text"], "Both.", "{reply}");
    let run = reply["result"]["taskId"].as_str().unwrap();
    let frames = replay(&near.api(), run).unwrap();
    let results: Vec<Value> = frames
        .iter()
        .filter(|frame| frame.kind() == "tool_result")
        .map(Frame::data)
        .collect();
    let said: Vec<&str> = results
        .iter()
        .filter_map(|result| result["result"].as_str())
        .collect();
    assert_eq!(said, ["over A2A", "over MCP"], "{results:?}");
    for door in ["a2a", "mcp"] {
        assert_eq!(end_of(&far, &run_via(&far, door)), "result");
    }
}
