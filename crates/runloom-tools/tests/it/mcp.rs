//! MCP servers, and their failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::Response;
use reqwest::Method;
use runloom_ports::effect::Effect;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peers::{
    Peer, ReceivedRequest, TestBed, broken, hanging, open_policy, result, rpc_error, status, typed,
};

/// A server with sessions and without a notification stream. `script` may override responses.
pub(crate) async fn server<F>(script: F) -> Peer
where
    F: Fn(&ReceivedRequest) -> Option<Response> + Send + Sync + 'static,
{
    Peer::start(move |received| {
        let answer = script(&received).unwrap_or_else(|| ordinary(&received));
        async move { answer }
    })
    .await
}

pub(crate) fn ordinary(received: &ReceivedRequest) -> Response {
    if received.method != Method::POST {
        return status(405);
    }
    match received.rpc_method() {
        "initialize" => {
            let mut response = result(
                received,
                &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "scripted", "version": "1"}}),
            );
            response
                .headers_mut()
                .insert("mcp-session-id", "s1".parse().unwrap());
            response
        }
        "tools/list" => result(received, &json!({"tools": [tool("echo")]})),
        "tools/call" => {
            let text = received.body["params"]["arguments"]["text"].clone();
            result(
                received,
                &json!({"content": [{"type": "text", "text": text}]}),
            )
        }
        "" => status(400),
        method if method.starts_with("notifications/") => status(202),
        _ => rpc_error(received, -32601, "Method not found"),
    }
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object",
        "properties": {"text": {"type": "string"}, "b": {}, "a": {}}}})
}

fn refs(peer: &Peer) -> Value {
    json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url),
            "headers": {"Authorization": "Bearer secret"}}])
}

fn event(value: &Value) -> String {
    format!("event: message\ndata: {value}\n\n")
}

#[tokio::test]
async fn lists_and_calls_tools_with_the_refs_headers() {
    let peer = server(|_| None).await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].name, "docs_echo");
    assert_eq!(tools[0].description, "does echo");
    let keys: Vec<&String> = tools[0].parameters["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(keys, ["text", "b", "a"], "schemas keep their order");
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!((outcome.content.as_str(), outcome.is_error), ("hi", false));
    for received in peer.received() {
        assert_eq!(
            received.header("authorization"),
            Some("Bearer secret"),
            "{}",
            received.rpc_method()
        );
    }
    let received = peer.received();
    let call = received
        .iter()
        .find(|h| h.rpc_method() == "tools/call")
        .unwrap();
    assert_eq!(call.header("mcp-session-id"), Some("s1"));
    assert_eq!(call.body["params"]["_meta"]["io.runloom/toolUseId"], "tu_1");
    assert_eq!(peer.count("initialize"), 1, "the connection is used again");
    assert!(!serde_json::to_string(&tools).unwrap().contains("secret"));
}

#[tokio::test]
async fn pages_filters_caches_and_limits_listings() {
    let peer = server(|received| {
        if received.rpc_method() != "tools/list" {
            return None;
        }
        let page: usize = received.body["params"]["cursor"]
            .as_str()
            .map_or(0, |c| c.parse().unwrap());
        let tools: Vec<Value> = (0..20).map(|n| tool(&format!("t{page}_{n}"))).collect();
        // There is always another page.
        Some(result(
            received,
            &json!({"tools": tools, "nextCursor": (page + 1).to_string()}),
        ))
    })
    .await;
    let bed = TestBed::new();
    let (_, all) = bed.resolve(&refs(&peer)).await;
    assert_eq!(all.len(), 512);
    let asked = peer.count("tools/list");
    let mut filtered = refs(&peer);
    filtered[0]["toolFilter"] = json!(["t1_3", "t0_5", "missing"]);
    let (_, some) = bed.resolve(&filtered).await;
    let names: Vec<&str> = some.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["docs_t0_5", "docs_t1_3"]);
    assert_eq!(peer.count("tools/list"), asked, "the listing is used again");
}

#[tokio::test]
async fn hints_become_effects_and_names_become_valid() {
    let peer = server(|received| {
        let hinted = |name: &str, hints: Value| {
            let mut tool = tool(name);
            tool["annotations"] = hints;
            tool
        };
        (received.rpc_method() == "tools/list").then(|| {
            result(
                received,
                &json!({"tools": [
                    hinted("a.b", json!({"readOnlyHint": true})),
                    hinted("a-b", json!({"idempotentHint": true})),
                    hinted("a b", json!({"destructiveHint": true})),
                    tool("plain"),
                ]}),
            )
        })
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let seen: Vec<_> = tools.iter().map(|t| (t.name.as_str(), t.effect)).collect();
    assert_eq!(
        seen,
        [
            ("docs_a_b", Effect::Read),
            ("docs_a_b_2", Effect::Idempotent),
            ("docs_a_b_3", Effect::Once),
            ("docs_plain", Effect::Once),
        ]
    );
    bed.call(&context, &tools[1], json!({})).await;
    let received = peer.received();
    let call = received
        .iter()
        .find(|h| h.rpc_method() == "tools/call")
        .unwrap();
    assert_eq!(call.body["params"]["name"], "a-b");
}

#[tokio::test]
async fn results_become_text_and_files() {
    let results = json!({
        "structured": {"content": [], "structuredContent": {"b": 1, "a": 2}},
        "both": {"content": [{"type": "text", "text": "three in all"}], "structuredContent": {"b": 1, "a": 2}},
        "blocks": {"content": [
            {"type": "text", "text": "one"}, {"type": "text", "text": "two"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///x/doc.pdf", "mimeType": "application/pdf", "blob": "AAAA"}},
            {"type": "resource", "resource": {"uri": "file:///x/a.txt", "text": "inside"}},
            {"type": "resource_link", "uri": "file:///y", "name": "y"}]},
        "error": {"content": [{"type": "text", "text": "no such thing"}], "isError": true},
        "empty": {"content": [], "isError": true},
        "huge": {"content": [{"type": "text", "text": "x".repeat(400_000)}]},
    });
    let peer = server(move |received| {
        let which = received.body["params"]["arguments"]["which"]
            .as_str()
            .unwrap_or_default();
        (received.rpc_method() == "tools/call").then(|| result(received, &results[which]))
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let call = |which: &'static str| bed.call(&context, &tools[0], json!({"which": which}));
    assert_eq!(call("structured").await.content, r#"{"b":1,"a":2}"#);
    assert_eq!(call("both").await.content, "three in all");
    let blocks = call("blocks").await;
    assert_eq!(
        blocks.content,
        "one\ntwo\n[resource file:///x/a.txt]\ninside\n[resource y: file:///y]"
    );
    let names: Vec<&str> = blocks.files.iter().map(|f| f.filename.as_str()).collect();
    assert_eq!(names, ["image-3.png", "doc.pdf"]);
    let error = call("error").await;
    assert_eq!(
        (error.content.as_str(), error.is_error),
        ("no such thing", true)
    );
    let empty = call("empty").await;
    assert!(empty.is_error && !empty.content.is_empty());
    let huge = call("huge").await;
    assert!(huge.content.len() < 300_000 && huge.content.contains("truncated"));
}

#[tokio::test]
async fn unusable_server_becomes_a_placeholder_with_the_reason() {
    let dead = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/mcp", listener.local_addr().unwrap())
    };
    let slow = Peer::start(|_| std::future::pending::<Response>()).await;
    let garbage = Peer::start(|_| async { typed("application/json", "{nonsense") }).await;
    let html = Peer::start(|_| async { typed("text/html", "<html>login</html>") }).await;
    let forbidden = Peer::start(|_| async { status(401) }).await;
    let failing = Peer::start(|_| async { status(500) }).await;
    let half = Peer::start(|_| async { typed("text/event-stream", broken("data: {\"js")) }).await;
    let silent = Peer::start(|_| async { typed("text/event-stream", hanging(": hi\n\n")) }).await;
    let endless =
        Peer::start(|_| async { typed("application/json", "x".repeat(20_000_000)) }).await;
    // Timeouts are short only for peers that never answer, so that a busy machine does not change other results.
    let table = [
        ("dead", dead, "cannot connect"),
        ("slow", slow.url.clone(), "within"),
        ("garbage", garbage.url.clone(), "JSON-RPC"),
        ("html", html.url.clone(), "text/html"),
        ("forbidden", forbidden.url.clone(), "401"),
        ("failing", failing.url.clone(), "500"),
        ("half", half.url.clone(), ""),
        ("silent", silent.url.clone(), "within"),
        ("endless", endless.url.clone(), "larger than"),
    ];
    for (name, url, why) in table {
        let bed = match why {
            "within" => TestBed::impatient(),
            _ => TestBed::new(),
        };
        let refs = json!([{"kind": "mcp", "name": name, "url": url}]);
        let (context, tools) = bed.resolve(&refs).await;
        assert_eq!(tools.len(), 1, "{name}");
        assert_eq!(tools[0].name, format!("{name}_unavailable"));
        let outcome = bed.call(&context, &tools[0], json!({})).await;
        assert!(outcome.is_error);
        assert!(outcome.content.contains(why), "{name}: {}", outcome.content);
    }
}

#[tokio::test]
async fn reopens_an_expired_session_and_calls_once() {
    let lost = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&lost);
    let processed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&processed);
    let peer = server(move |received| {
        if received.rpc_method() == "tools/call" {
            if flag.swap(false, Ordering::SeqCst) {
                return Some(status(404));
            }
            counted.fetch_add(1, Ordering::SeqCst);
        }
        None
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    lost.store(true, Ordering::SeqCst);
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi", "{outcome:?}");
    assert_eq!(peer.count("initialize"), 2);
    assert_eq!(processed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn broken_response_is_not_repeated_and_the_next_call_works() {
    let fails = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&fails);
    let peer = server(move |received| {
        if received.rpc_method() != "tools/call" {
            return None;
        }
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Some(typed(
                "text/event-stream",
                broken("event: message\ndata: {\"json"),
            )),
            1 => Some(typed("text/event-stream", "")),
            2 => Some(status(502)),
            3 => Some(typed("text/html", "<html>")),
            _ => None,
        }
    })
    .await;
    let bed = TestBed::with(
        open_policy(),
        ToolLimits {
            idle_timeout: Duration::from_secs(3),
            ..ToolLimits::default()
        },
    );
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    for turn in 0..4 {
        let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
        assert!(outcome.is_error, "{turn}: {outcome:?}");
        assert_eq!(peer.count("tools/call"), turn + 1, "never repeated");
    }
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi", "{outcome:?}");
}

#[tokio::test]
async fn passes_on_the_servers_error() {
    let peer = server(|received| {
        (received.rpc_method() == "tools/call")
            .then(|| rpc_error(received, -32602, "text must be short"))
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert!(outcome.is_error);
    assert!(
        outcome.content.contains("text must be short"),
        "{}",
        outcome.content
    );
}

#[tokio::test]
async fn progress_extends_the_idle_timeout() {
    use futures_util::StreamExt as _;
    let peer = server(|received| {
        if received.rpc_method() != "tools/call" {
            return None;
        }
        let id = received.body["id"].clone();
        let token = received.body["params"]["_meta"]["progressToken"].clone();
        if received.body["params"]["arguments"]["text"] == "silent" {
            return Some(typed("text/event-stream", hanging(": waiting\n\n")));
        }
        let beats = futures_util::stream::unfold(0, move |turn| {
            let (id, token) = (id.clone(), token.clone());
            async move {
                tokio::time::sleep(Duration::from_millis(400)).await;
                let message = match turn {
                    0..=5 => json!({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": turn}}),
                    6 => json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "done"}]}}),
                    _ => return None,
                };
                Some((event(&message), turn + 1))
            }
        });
        let body = axum::body::Body::from_stream(beats.map(Ok::<_, std::io::Error>));
        Some(typed("text/event-stream", body))
    })
    .await;
    let limits = ToolLimits {
        idle_timeout: Duration::from_millis(1800),
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let outcome = bed.call(&context, &tools[0], json!({"text": "busy"})).await;
    assert_eq!(outcome.content, "done", "{outcome:?}");
    let outcome = bed
        .call(&context, &tools[0], json!({"text": "silent"}))
        .await;
    assert!(
        outcome.is_error && outcome.content.contains("no response or progress"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn cancelling_ends_the_call_and_notifies_the_server() {
    let peer = server(|received| {
        (received.rpc_method() == "tools/call")
            .then(|| typed("text/event-stream", hanging(": waiting\n\n")))
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error);
    peer.until(|received| received.rpc_method() == "notifications/cancelled")
        .await;
}

#[tokio::test]
async fn newest_protocol_needs_no_handshake() {
    let peer = server(|received| match received.rpc_method() {
        "server/discover" => Some(result(
            received,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}),
        )),
        "tools/list" => Some(result(
            received,
            &json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"}),
        )),
        _ => None,
    })
    .await;
    let bed = TestBed::new();
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    assert_eq!(tools[0].name, "docs_echo");
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi", "{outcome:?}");
    assert_eq!(peer.count("initialize"), 0);
}

#[tokio::test]
async fn closes_idle_sessions_and_reopens_them() {
    let peer = server(|_| None).await;
    let limits = ToolLimits {
        max_connections: 1,
        ..ToolLimits::default()
    };
    let bed = TestBed::with(open_policy(), limits);
    let mut other = refs(&peer);
    other[0]["headers"] = json!({"Authorization": "Bearer other"});
    let (context, tools) = bed.resolve(&refs(&peer)).await;
    bed.resolve(&other).await;
    peer.until(|received| received.method == Method::DELETE)
        .await;
    let outcome = bed.call(&context, &tools[0], json!({"text": "hi"})).await;
    assert_eq!(outcome.content, "hi");
    assert_eq!(peer.count("initialize"), 3);
}
