//! A call of an MCP server that is cancelled: the server is told, and its connection does not stay open for nobody.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt as _;
use runloom_tools::ToolLimits;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::mcp::{ordinary, tool};
use crate::peers::{Bed, Heard, Peer, open_policy, result, typed};

/// Says so when it is dropped: with the answer that holds it, when the connection is gone.
struct Held(UnboundedSender<()>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// An answer that begins like this and then says nothing more, for as long as somebody is there.
fn begun(media_type: &'static str, beginning: &'static str, held: Held) -> Response {
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from(beginning))]);
    let never = futures_util::stream::pending().map(move |never| {
        let _held = &held;
        never
    });
    typed(media_type, Body::from_stream(first.chain(never)))
}

/// How far the answer to a call gets.
#[derive(Debug, Clone, Copy)]
enum Reaches {
    Nothing,
    Events,
    HalfOfAnAnswer,
}

/// What the newest generation says instead of a handshake; the older one does not know the method.
fn newest(heard: &Heard) -> Option<Response> {
    let answer = match heard.rpc_method() {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
        }
        "tools/list" => {
            json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"})
        }
        _ => return None,
    };
    Some(result(heard, &answer))
}

async fn cancelled_call_lets_go(reaches: Reaches, is_new: bool) {
    let (gone, mut noticed) = unbounded_channel();
    let peer = Peer::start(move |heard| {
        let calls = heard.rpc_method() == "tools/call";
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
                (None, _) if is_new => newest(&heard).unwrap_or_else(|| ordinary(&heard)),
                (None, _) => ordinary(&heard),
            }
        }
    })
    .await;
    let bed = Bed::with(open_policy(), ToolLimits::default());
    let refs: Value = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url)}]);
    let (context, tools) = bed.resolve(&refs).await;
    assert_eq!(tools[0].name, "docs_echo", "{reaches:?} {is_new}");
    let cancel = CancellationToken::new();
    let calling = bed.call_until(&context, &tools[0], json!({}), cancel.clone());
    let cancelling = async {
        peer.until(|heard| heard.rpc_method() == "tools/call").await;
        assert!(noticed.try_recv().is_err(), "the answer is under way");
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.is_error, "{}", outcome.content);
    // Far less than the time after which an idle call ends by itself.
    let ended = tokio::time::timeout(Duration::from_secs(10), noticed.recv()).await;
    assert_eq!(ended, Ok(Some(())), "{reaches:?} {is_new}: still open");
}

#[tokio::test]
async fn a_cancelled_calls_stream_of_events_is_closed() {
    cancelled_call_lets_go(Reaches::Events, false).await;
    cancelled_call_lets_go(Reaches::Events, true).await;
}

#[tokio::test]
async fn a_cancelled_call_that_was_not_answered_at_all_is_closed() {
    cancelled_call_lets_go(Reaches::Nothing, false).await;
    cancelled_call_lets_go(Reaches::Nothing, true).await;
}

#[tokio::test]
async fn a_cancelled_calls_answer_that_began_is_closed() {
    cancelled_call_lets_go(Reaches::HalfOfAnAnswer, false).await;
    cancelled_call_lets_go(Reaches::HalfOfAnAnswer, true).await;
}
