//! The tool server: MCP over HTTP, with a ledger of its own of everything that it was asked to do.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::peers::Peers;

/// One call as the tool server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The call's id, by which a server can recognise a repeated call.
    pub(crate) id: String,
    pub(crate) tool: String,
    /// What the model asked for: unique for each call of each script.
    pub(crate) token: String,
    /// What is answered, different for each effect.
    pub(crate) result: String,
}

/// `POST /mcp`.
pub(crate) async fn serve(State(peers): State<Peers>, Json(body): Json<Value>) -> Response {
    let result = match body["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "kit", "version": "1"}}),
        "tools/list" => json!({"tools": [
            tool("read", &json!({"readOnlyHint": true})),
            tool("again", &json!({"idempotentHint": true})),
            tool("once", &json!({})),
        ]}),
        "tools/call" => call(&peers, &body["params"]).await,
        method if method.starts_with("notifications/") => {
            return StatusCode::ACCEPTED.into_response();
        }
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return Json(json!({"jsonrpc": "2.0", "id": body["id"], "error": error}))
                .into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": body["id"], "result": result})).into_response()
}

fn tool(name: &str, hints: &Value) -> Value {
    json!({"name": name, "description": name, "annotations": hints,
           "inputSchema": {"type": "object", "properties": {"token": {"type": "string"}}}})
}

/// The effect comes first and is in the ledger at once; the answer takes a while, so that processes die in between.
async fn call(peers: &Peers, params: &Value) -> Value {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut entry = Entry {
        id: word(&params["_meta"]["io.runloom/toolUseId"]),
        tool: word(&params["name"]),
        token: word(&params["arguments"]["token"]),
        result: String::new(),
    };
    let nth = {
        let mut ledger = peers.ledger();
        let nth = ledger.len();
        entry.result = format!("effect {nth} of {}", entry.token);
        // Told by its key, a repeated call gets the first one's answer.
        if let Some(first) = ledger
            .iter()
            .find(|first| entry.tool == "again" && first.id == entry.id)
        {
            entry.result = first.result.clone();
        }
        ledger.push(entry.clone());
        nth
    };
    tokio::time::sleep(Duration::from_millis(5 + (nth as u64 * 37) % 120)).await;
    json!({"content": [{"type": "text", "text": entry.result}]})
}
