//! How much of an MCP server, and how many of them, a run and a workspace may have.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::mcp::{ordinary, server};
use crate::peers::{Bed, Defined, Heard, Peer, open_policy, result, typed};

fn refs(peer: &Peer) -> Value {
    json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}])
}

#[tokio::test]
async fn a_workspace_that_waits_for_slow_servers_leaves_others_room() {
    let limits = ToolLimits {
        max_connections: 3,
        max_workspace_connections: 2,
        ..ToolLimits::default()
    };
    let bed = Bed::with(open_policy(), limits);
    let slow = Peer::start(|_| std::future::pending::<Response>()).await;
    let peer = server(|_| None).await;
    let many: Vec<Value> = (0..5)
        .map(|n| json!({"kind": "mcp", "name": format!("slow{n}"), "url": format!("{}/{n}", slow.url)}))
        .collect();
    let many = Value::from(many);
    let other = async {
        slow.until(|_| slow.heard().len() == 2).await;
        bed.resolve_in("other", &refs(&peer)).await.1
    };
    tokio::select! {
        _ = bed.resolve_in("busy", &many) => panic!("slow servers answered"),
        tools = other => assert_eq!(tools[0].name, "docs_echo"),
    }
    assert_eq!(slow.heard().len(), 2, "the others wait for a place");
}

#[tokio::test]
async fn who_finds_no_room_waits_for_it() {
    let limits = ToolLimits {
        max_connections: 1,
        ..ToolLimits::default()
    };
    let bed = Bed::with(open_policy(), limits);
    let go_on = Arc::new(Notify::new());
    let held = Arc::clone(&go_on);
    let peer = Peer::start(move |heard| {
        let held = Arc::clone(&held);
        async move {
            if heard.rpc_method() == "tools/call" {
                held.notified().await;
            }
            ordinary(&heard)
        }
    })
    .await;
    let (context, tools) = bed.resolve_in("one", &refs(&peer)).await;
    let calling = bed.call(&context, &tools[0], json!({"text": "hi"}));
    let other = async {
        peer.until(|heard| heard.rpc_method() == "tools/call").await;
        let release = async {
            tokio::task::yield_now().await;
            go_on.notify_one();
        };
        // Who asks is polled first.
        let wanted = refs(&peer);
        tokio::join!(bed.resolve_in("two", &wanted), release).0.1
    };
    let (outcome, found) = tokio::join!(calling, other);
    assert_eq!(outcome.content, "hi", "{outcome:?}");
    assert_eq!(found[0].name, "docs_echo");
}

#[tokio::test]
async fn a_definition_that_gives_its_tool_more_time_gives_it_more_silence() {
    let go_on = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&go_on);
    let peer = Peer::start(move |heard| {
        let held = Arc::clone(&held);
        async move {
            if heard.rpc_method() == "tools/call" {
                held.acquire().await.unwrap().forget();
            }
            ordinary(&heard)
        }
    })
    .await;
    let tool = json!({"type": "mcp", "url": format!("{}/mcp", peer.url), "tool": "echo", "timeoutMs": 300_000});
    let definition = validate::tool_definition(&tool, "t").unwrap();
    let defined = Defined {
        tools: vec![("t".to_owned(), definition)],
        ..Defined::default()
    };
    let limits = ToolLimits {
        idle_timeout: Duration::from_millis(200),
        ..ToolLimits::default()
    };
    let bed = Bed::defining(defined, open_policy(), limits);
    let (context, tools) = bed.resolve(&json!([{"kind": "mantyx", "id": "t"}])).await;
    let patient = bed.call(&context, &tools[0], json!({"text": "hi"}));
    let (plain, listed) = bed.resolve(&refs(&peer)).await;
    let other = async {
        peer.until(|heard| heard.rpc_method() == "tools/call").await;
        // One without such a definition, made later, is given up in the meantime.
        let silent = bed.call(&plain, &listed[0], json!({"text": "ho"})).await;
        go_on.add_permits(2);
        silent
    };
    let (outcome, silent) = tokio::join!(patient, other);
    assert!(silent.content.contains("sign of life"), "{silent:?}");
    assert_eq!(outcome.content, "hi", "{outcome:?}");
}

/// A tool whose schema has so many bytes, more or less.
fn large(name: &str, bytes: usize) -> Value {
    let described = json!({"type": "string", "description": "y".repeat(bytes)});
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"x": described}}})
}

/// A server with so many tools of so many bytes, each on a page of its own; it never says that this was the last.
async fn pages(each: usize) -> Peer {
    server(move |heard| {
        (heard.rpc_method() == "tools/list").then(|| {
            let cursor = heard.body["params"]["cursor"].as_str();
            let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let tools: Vec<Value> = (0..each)
                .map(|n| large(&format!("t{page}_{n}"), 100_000))
                .collect();
            let next = (page + 1).to_string();
            result(heard, &json!({"tools": tools, "nextCursor": next}))
        })
    })
    .await
}

fn all_at_once(heard: &Heard, tools: usize, bytes: usize) -> Option<Response> {
    let tools = (0..tools).map(|n| large(&format!("t{n}"), bytes));
    let tools: Vec<Value> = tools.collect();
    (heard.rpc_method() == "tools/list").then(|| result(heard, &json!({"tools": tools})))
}

#[tokio::test]
async fn what_a_server_lists_beyond_a_few_megabytes_is_not_asked_for() {
    let peer = pages(10).await;
    let (_, tools) = Bed::new().resolve(&refs(&peer)).await;
    assert_eq!(tools.len(), 41, "the first four megabytes");
    assert_eq!(tools[40].name, "docs_t4_0");
    assert_eq!(peer.count("tools/list"), 5);
}

#[tokio::test]
async fn one_page_that_is_too_large_is_not_read_to_its_end() {
    let plain = server(|heard| all_at_once(heard, 50, 100_000)).await;
    let stream = server(|heard| {
        let tools: Vec<Value> = (0..50).map(|n| large(&format!("t{n}"), 100_000)).collect();
        let answer = json!({"jsonrpc": "2.0", "id": heard.body["id"], "result": {"tools": tools}});
        let event = format!("event: message\ndata: {answer}\n\n");
        (heard.rpc_method() == "tools/list").then(|| typed("text/event-stream", event))
    })
    .await;
    for peer in [plain, stream] {
        let bed = Bed::new();
        let (context, tools) = bed.resolve(&refs(&peer)).await;
        assert_eq!(tools[0].name, "docs_unavailable");
        let said = bed.call(&context, &tools[0], json!({})).await;
        assert!(said.content.contains("larger than"), "{said:?}");
    }
}

#[tokio::test]
async fn the_refs_of_a_run_expose_so_much_together_and_the_others_say_why() {
    for (count, bytes, fit) in [(512, 10, 4), (35, 100_000, 2)] {
        let peer = server(move |heard| all_at_once(heard, count, bytes)).await;
        let bed = Bed::new();
        let many: Vec<Value> = (0..6)
            .map(|n| json!({"kind": "mcp", "name": format!("m{n}"), "url": format!("{}/{n}", peer.url)}))
            .collect();
        let (context, tools) = bed.resolve(&Value::from(many)).await;
        assert_eq!(tools.len(), fit * count + 6 - fit);
        let left = tools
            .iter()
            .find(|tool| tool.name.ends_with("_unavailable"));
        let said = bed.call(&context, left.unwrap(), json!({})).await;
        assert!(said.content.contains("do not fit"), "{said:?}");
    }
}
