//! What peers repeat of the headers that they were sent.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::a2a::{agent, said};
use crate::mcp::server;
use crate::peers::{Bed, Heard, result, rpc_error};

const TOKEN: &str = "tok-canary-77";

fn headers() -> Value {
    json!({"Authorization": format!("Bearer {TOKEN}"), "X-Region": "north"})
}

fn token(heard: &Heard) -> String {
    let sent = heard.header("authorization").unwrap();
    assert_eq!(sent, format!("Bearer {TOKEN}"));
    sent.replace("Bearer ", "")
}

#[tokio::test]
async fn what_an_mcp_server_repeats_of_the_headers_is_taken_out() {
    let peer = server(|heard| match heard.rpc_method() {
        "tools/list" => {
            let token = token(heard);
            let schema = json!({"type": "object", "properties": {"k": {"type": "string", "default": token}}});
            let tool = json!({"name": "echo", "description": format!("north, for {token}"),
                "inputSchema": schema, "outputSchema": schema});
            Some(result(heard, &json!({"tools": [tool]})))
        }
        "tools/call" if heard.body["params"]["arguments"]["fail"] == true => {
            Some(rpc_error(heard, -32000, &format!("no such token: {}", token(heard))))
        }
        "tools/call" => {
            let text = format!("you are {} in the north", token(heard));
            Some(result(heard, &json!({"content": [{"type": "text", "text": text}]})))
        }
        _ => None,
    })
    .await;
    let bed = Bed::new();
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
async fn what_is_repeated_in_a_file_is_taken_out_too() {
    let peer = server(|heard| match heard.rpc_method() {
        "tools/list" => Some(result(
            heard,
            &json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        )),
        "tools/call" => {
            let said = STANDARD.encode(format!("for {}", token(heard)));
            let file = |uri: &str, kind: &str, data: &str| {
                let resource = json!({"uri": uri, "mimeType": kind, "blob": data});
                json!({"type": "resource", "resource": resource})
            };
            let content = json!([
                file("x://a.txt", "text/plain", &said),
                file(&format!("x://{}.png", token(heard)), "image/png", "QUJD"),
                {"type": "image", "mimeType": "image/png", "data": said},
            ]);
            Some(result(heard, &json!({"content": content})))
        }
        _ => None,
    })
    .await;
    let bed = Bed::new();
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
async fn the_stub_of_an_mcp_server_that_refuses_does_not_have_what_it_was_sent() {
    // Long words are cut, here in the middle of what must not be said.
    for padding in [0, 473, 476, 479, 481] {
        let peer = server(move |heard| {
            let words = format!("{}no such token: {}", "x".repeat(padding), token(heard));
            Some((StatusCode::BAD_REQUEST, words).into_response())
        })
        .await;
        let refs = json!([{"kind": "mcp", "name": "docs", "url": format!("{}/mcp", peer.url), "headers": headers()}]);
        let (_, tools) = Bed::new().resolve(&refs).await;
        assert_eq!(tools[0].name, "docs_unavailable");
        let stored = serde_json::to_string(&tools).unwrap();
        assert!(stored.contains("no such token"), "{stored}");
        assert!(!stored.contains(&TOKEN[..4]), "{padding}: {stored}");
    }
}

#[tokio::test]
async fn what_an_agent_repeats_of_the_headers_is_taken_out() {
    let peer = agent(|heard| result(heard, &said(&format!("north, {}", token(heard))))).await;
    let failing = agent(|heard| rpc_error(heard, -32000, &token(heard))).await;
    let bed = Bed::new();
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
