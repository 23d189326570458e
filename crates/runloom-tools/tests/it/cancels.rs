//! Cancelled calls of MCP servers: the connection is closed.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt as _;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::mcp::{ordinary, tool};
use crate::peers::{Peer, ReceivedRequest, TestBed, open_policy, result, typed};

/// Reports its drop, which happens when the connection of its response is closed.
struct Held(UnboundedSender<()>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A response that begins with `beginning` and does not end.
fn begun(media_type: &'static str, beginning: &'static str, held: Held) -> Response {
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from(beginning))]);
    let never = futures_util::stream::pending().map(move |never| {
        let _held = &held;
        never
    });
    typed(media_type, Body::from_stream(first.chain(never)))
}

/// How much of the response to a call is sent.
#[derive(Debug, Clone, Copy)]
enum Reaches {
    Nothing,
    Events,
    HalfOfAnAnswer,
}

/// Responses of the newest protocol version, which has no handshake.
fn newest(received: &ReceivedRequest) -> Option<Response> {
    let answer = match received.rpc_method() {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
        }
        "tools/list" => {
            json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"})
        }
        _ => return None,
    };
    Some(result(received, &answer))
}

async fn check_cancelled_call_closes(reaches: Reaches, is_new: bool) {
    let (gone, mut noticed) = unbounded_channel();
    let peer = Peer::start(move |received| {
        let calls = received.rpc_method() == "tools/call";
        let held = calls.then(|| Held(gone.clone()));
        async move {
            match (held, reaches) {
                (Some(held), Reaches::Nothing) => {
                    let _held = held;
                    std::future::pending().await
                }
                (Some(held), Reaches::Events) => begun("text/event-stream", ": waiting\n\n", held),
                (Some(held), Reaches::HalfOfAnAnswer) => {
                    begun("application/json", "{\"jsonrpc\":", held)
                }
                (None, _) if is_new => newest(&received).unwrap_or_else(|| ordinary(&received)),
                (None, _) => ordinary(&received),
            }
        }
    })
    .await;
    let bed = TestBed::with(open_policy(), ToolLimits::default());
    let refs: Value = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}]);
    let (context, tools) = bed.resolve(&refs).await;
    assert_eq!(tools[0].name, "docs_echo", "{reaches:?} {is_new}");
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|received| received.rpc_method() == "tools/call")
            .await;
        assert!(noticed.try_recv().is_err(), "the answer is under way");
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error, "{}", outcome.content);
    // Far less than the idle timeout of a call.
    let ended = tokio::time::timeout(Duration::from_secs(10), noticed.recv()).await;
    assert_eq!(ended, Ok(Some(())), "{reaches:?} {is_new}: still open");
}

#[tokio::test]
async fn cancelling_closes_an_event_stream() {
    check_cancelled_call_closes(Reaches::Events, false).await;
    check_cancelled_call_closes(Reaches::Events, true).await;
}

#[tokio::test]
async fn cancelling_closes_an_unanswered_call() {
    check_cancelled_call_closes(Reaches::Nothing, false).await;
    check_cancelled_call_closes(Reaches::Nothing, true).await;
}

#[tokio::test]
async fn cancelling_closes_a_partial_response() {
    check_cancelled_call_closes(Reaches::HalfOfAnAnswer, false).await;
    check_cancelled_call_closes(Reaches::HalfOfAnAnswer, true).await;
}
