//! How much of an MCP server, and how many of them, a run and a workspace may have.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use runloom_protocol::validate;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::mcp::{ordinary, server};
use crate::peers::{Bed, Defined, Peer, open_policy};

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
    let peer = Peer::start(|heard| async move {
        if heard.rpc_method() == "tools/call" {
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
        ordinary(&heard)
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
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi", "{outcome:?}");
}
