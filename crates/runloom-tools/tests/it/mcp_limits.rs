//! Limits on MCP connections and listings per run and workspace.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::mcp::{ordinary, server};
use crate::peers::{Peer, ReceivedRequest, TestBed, TestDefinitions, open_policy, result, typed};

fn refs(peer: &Peer) -> Value {
    json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}])
}

#[tokio::test]
async fn slow_servers_of_one_workspace_do_not_block_others() {
    let limits = ToolLimits {
        max_connections: 3,
        max_workspace_connections: 2,
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    let slow = Peer::start(|_| std::future::pending::<Response>()).await;
    let peer = server(|_| None).await;
    let many: Vec<Value> = (0..5)
        .map(|n| json!({"kind": "mcp", "name": format!("slow{n}"), "url": format!("{}/{n}", slow.url)}))
        .collect();
    let many = Value::from(many);
    let other = async {
        slow.until(|_| slow.received().len() == 2).await;
        bed.resolve_in("other", &refs(&peer)).await.1
    };
    tokio::select! {
        _ = bed.resolve_in("busy", &many) => panic!("slow servers answered"),
        tools = other => assert_eq!(tools[0].name, "docs_echo"),
    }
    assert_eq!(slow.received().len(), 2, "the others wait for a place");
}

#[tokio::test]
async fn waits_for_a_free_connection() {
    let limits = ToolLimits {
        max_connections: 1,
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    let go_on = Arc::new(Notify::new());
    let held = Arc::clone(&go_on);
    let peer = Peer::start(move |received| {
        let held = Arc::clone(&held);
        async move {
            if received.rpc_method() == "tools/call" {
                held.notified().await;
            }
            ordinary(&received)
        }
    })
    .await;
    let (context, tools) = bed.resolve_in("one", &refs(&peer)).await;
    let calling = bed.call(&context, &tools[0], json!({"text": "hi"}));
    let other = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        let release = async {
            tokio::task::yield_now().await;
            go_on.notify_one();
        };
        // The resolving future is polled first.
        let wanted = refs(&peer);
        tokio::join!(bed.resolve_in("two", &wanted), release).0.1
    };
    let (outcome, found) = tokio::join!(calling, other);
    assert_eq!(outcome.content, "hi", "{outcome:?}");
    assert_eq!(found[0].name, "docs_echo");
}

#[tokio::test]
async fn definition_timeout_replaces_the_idle_timeout() {
    let go_on = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&go_on);
    let peer = Peer::start(move |received| {
        let held = Arc::clone(&held);
        async move {
            if received.rpc_method() == "tools/call" {
                held.acquire().await.unwrap().forget();
            }
            ordinary(&received)
        }
    })
    .await;
    let tool = json!({"type": "mcp", "url": format!("{}/mcp", peer.url), "tool": "echo", "timeoutMs": 300_000});
    let definition = validate::tool_definition(&tool, "t").unwrap();
    let defined = TestDefinitions {
        tools: vec![("t".to_owned(), definition)],
        ..TestDefinitions::default()
    };
    let limits = ToolLimits {
        idle_timeout: Duration::from_millis(200),
        ..ToolLimits::default()
    };
    let bed = TestBed::defining(defined, open_policy(), limits);
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let patient = bed.call(&context, &tools[0], json!({"text": "hi"}));
    let (plain, listed) = bed.resolve(&refs(&peer)).await;
    let other = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        // A call without such a definition times out in the meantime.
        let silent = bed.call(&plain, &listed[0], json!({"text": "ho"})).await;
        go_on.add_permits(2);
        silent
    };
    let (outcome, silent) = tokio::join!(patient, other);
    assert!(
        silent.content.contains("no response or progress"),
        "{silent:?}"
    );
    assert_eq!(outcome.content, "hi", "{outcome:?}");
}

/// A tool whose schema has about this many bytes.
fn large(name: &str, bytes: usize) -> Value {
    let described = json!({"type": "string", "description": "y".repeat(bytes)});
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"x": described}}})
}

/// A server with endless pages of `each` large tools.
async fn pages(each: usize) -> Peer {
    server(move |received| {
        (received.rpc_method() == "tools/list").then(|| {
            let cursor = received.body["params"]["cursor"].as_str();
            let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let tools: Vec<Value> = (0..each)
                .map(|n| large(&format!("t{page}_{n}"), 100_000))
                .collect();
            let next = (page + 1).to_string();
            result(received, &json!({"tools": tools, "nextCursor": next}))
        })
    })
    .await
}

fn one_page(received: &ReceivedRequest, tools: usize, bytes: usize) -> Option<Response> {
    let tools = (0..tools).map(|n| large(&format!("t{n}"), bytes));
    let tools: Vec<Value> = tools.collect();
    (received.rpc_method() == "tools/list").then(|| result(received, &json!({"tools": tools})))
}

#[tokio::test]
async fn stops_listing_at_the_size_limit() {
    let peer = pages(10).await;
    let (_, tools) = TestBed::new().resolve(&refs(&peer)).await;
    assert_eq!(tools.len(), 41, "the first four megabytes");
    assert_eq!(tools[40].name, "docs_t4_0");
    assert_eq!(peer.count("tools/list"), 5);
}

#[tokio::test]
async fn refuses_an_oversized_page() {
    let plain = server(|received| one_page(received, 50, 100_000)).await;
    let stream = server(|received| {
        let tools: Vec<Value> = (0..50).map(|n| large(&format!("t{n}"), 100_000)).collect();
        let answer =
            json!({"jsonrpc": "2.0", "id": received.body["id"], "result": {"tools": tools}});
        let event = format!("event: message\ndata: {answer}\n\n");
        (received.rpc_method() == "tools/list").then(|| typed("text/event-stream", event))
    })
    .await;
    for peer in [plain, stream] {
        let bed = TestBed::new();
        let (context, tools) = bed.resolve(&refs(&peer)).await;
        assert_eq!(tools[0].name, "docs_unavailable");
        let said = bed.call(&context, &tools[0], json!({})).await;
        assert!(said.content.contains("larger than"), "{said:?}");
    }
}

#[tokio::test]
async fn limits_the_tools_of_all_refs_together() {
    for (count, bytes, fit) in [(512, 10, 4), (35, 100_000, 2)] {
        let peer = server(move |received| one_page(received, count, bytes)).await;
        let bed = TestBed::new();
        let many: Vec<Value> = (0..6)
            .map(|n| json!({"kind": "mcp", "name": format!("m{n}"), "url": format!("{}/{n}", peer.url)}))
            .collect();
        let (context, tools) = bed.resolve(&Value::from(many)).await;
        assert_eq!(tools.len(), fit * count + 6 - fit);
        let left = tools
            .iter()
            .find(|tool| tool.name.ends_with("_unavailable"));
        let said = bed.call(&context, left.unwrap(), json!({})).await;
        assert!(said.content.contains("exceed the limit"), "{said:?}");
    }
}
