//! Headers that peers repeat are redacted.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::a2a::{agent, said};
use crate::mcp::server;
use crate::peers::{ReceivedRequest, TestBed, result, rpc_error};

const TOKEN: &str = "tok-canary-77";

fn headers() -> Value {
    json!({"Authorization": format!("Bearer {TOKEN}"), "X-Region": "north"})
}

fn token(received: &ReceivedRequest) -> String {
    let sent = received.header("authorization").unwrap();
    assert_eq!(sent, format!("Bearer {TOKEN}"));
    sent.replace("Bearer ", "")
}

#[tokio::test]
async fn redacts_headers_that_an_mcp_server_repeats() {
    let peer = server(|received| match received.rpc_method() {
        "tools/list" => {
            let token = token(received);
            let schema = json!({"type": "object", "properties": {"k": {"type": "string", "default": token}}});
            let tool = json!({"name": "echo", "description": format!("north, for {token}"),
                "inputSchema": schema, "outputSchema": schema});
            Some(result(received, &json!({"tools": [tool]})))
        }
        "tools/call" if received.body["params"]["arguments"]["fail"] == true => {
            Some(rpc_error(received, -32000, &format!("no such token: {}", token(received))))
        }
        "tools/call" => {
            let text = format!("you are {} in the north", token(received));
            Some(result(received, &json!({"content": [{"type": "text", "text": text}]})))
        }
        _ => None,
    })
    .await;
    let bed = TestBed::new();
    let refs = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url), "headers": headers()}]);
    let (context, tools) = bed.resolve(&refs).await;
    assert_eq!(tools[0].description, "north, for ***");
    assert_eq!(tools[0].parameters["properties"]["k"]["default"], "***");
    assert!(!serde_json::to_string(&tools).unwrap().contains(TOKEN));
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    assert_eq!(outcome.content, "you are *** in the north");
    let refused = bed.call(&context, &tools[0], json!({"fail": true})).await;
    assert!(
        refused.content.contains("no such token: ***"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn redacts_headers_in_files() {
    let peer = server(|received| match received.rpc_method() {
        "tools/list" => Some(result(
            received,
            &json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        )),
        "tools/call" => {
            let said = STANDARD.encode(format!("for {}", token(received)));
            let file = |uri: &str, kind: &str, data: &str| {
                let resource = json!({"uri": uri, "mimeType": kind, "blob": data});
                json!({"type": "resource", "resource": resource})
            };
            let content = json!([
                file("x://a.txt", "text/plain", &said),
                file(&format!("x://{}.png", token(received)), "image/png", "QUJD"),
                {"type": "image", "mimeType": "image/png", "data": said},
            ]);
            Some(result(received, &json!({"content": content})))
        }
        _ => None,
    })
    .await;
    let bed = TestBed::new();
    let refs = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url), "headers": headers()}]);
    let (context, tools) = bed.resolve(&refs).await;
    let outcome = bed.call(&context, &tools[0], json!({})).await;
    let kept: Vec<(&str, Vec<u8>)> = outcome
        .files
        .iter()
        .map(|file| (&*file.filename, STANDARD.decode(&file.data).unwrap()))
        .collect();
    assert_eq!(
        kept,
        [("a.txt", b"for ***".to_vec()), ("***.png", b"ABC".to_vec())]
    );
    assert!(
        outcome.content.contains("image-3.png left out"),
        "{outcome:?}"
    );
    assert!(!format!("{outcome:?}").contains(TOKEN));
}

#[tokio::test]
async fn redacts_headers_in_the_reason_of_a_placeholder() {
    // Long messages are truncated, here in the middle of the token.
    for padding in [0, 473, 476, 479, 481] {
        let peer = server(move |received| {
            let words = format!("{}no such token: {}", "x".repeat(padding), token(received));
            Some((StatusCode::BAD_REQUEST, words).into_response())
        })
        .await;
        let refs = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url), "headers": headers()}]);
        let (_, tools) = TestBed::new().resolve(&refs).await;
        assert_eq!(tools[0].name, "docs_unavailable");
        let stored = serde_json::to_string(&tools).unwrap();
        assert!(stored.contains("no such token"), "{stored}");
        assert!(!stored.contains(&TOKEN[..4]), "{padding}: {stored}");
    }
}

#[tokio::test]
async fn redacts_headers_that_an_agent_repeats() {
    let peer =
        agent(|received| result(received, &said(&format!("north, {}", token(received))))).await;
    let failing = agent(|received| rpc_error(received, -32000, &token(received))).await;
    let bed = TestBed::new();
    for (url, words) in [(&peer.url, "north, ***"), (&failing.url, "***")] {
        let refs =
            json!([{"kind": "a2a", "name": "weather", "agentCardUrl": url, "headers": headers()}]);
        let (context, tools) = bed.resolve(&refs).await;
        let outcome = bed
            .call(&context, &tools[0], json!({"message": "hi"}))
            .await;
        assert!(outcome.content.contains(words), "{outcome:?}");
        assert!(!outcome.content.contains(TOKEN), "{outcome:?}");
    }
}
