//! A scripted MCP server over HTTP.

use serde_json::{Value, json};

use crate::peer::{Asked, Peer, Reply};

/// A server with these tools; the test answers the calls.
pub(crate) fn mcp(tools: Value, call: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Peer {
    Peer::start(move |asked, _| match asked.body["method"].as_str() {
        _ if asked.method != "POST" => Reply::Plain(405, vec![], String::new()),
        Some("initialize") => result(
            asked,
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"}
            }),
        ),
        Some("tools/list") => result(asked, &json!({"tools": tools})),
        Some("tools/call") => call(asked),
        Some(method) if method.starts_with("notifications/") => {
            Reply::Plain(202, vec![], String::new())
        }
        _ => rpc(
            asked,
            "error",
            &json!({"code": -32601, "message": "Method not found"}),
        ),
    })
}

/// An answer.
pub(crate) fn result(asked: &Asked, result: &Value) -> Reply {
    rpc(asked, "result", result)
}

fn rpc(asked: &Asked, key: &str, value: &Value) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": asked.body["id"], key: value});
    let json = ("Content-Type", "application/json".to_owned());
    Reply::Plain(200, vec![json], body.to_string())
}

/// What an answered call gives.
pub(crate) fn text(asked: &Asked, text: &str) -> Reply {
    result(asked, &json!({"content": [{"type": "text", "text": text}]}))
}

/// True for the request that calls a tool.
pub(crate) fn is_call(asked: &Asked) -> bool {
    asked.body["method"] == "tools/call"
}
