//! Agents over MCP without an engine: doors, lists, revisions, origins, and what is wrong with a request.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::Settings;
use runloom_ports::store::KeyUsage;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::a2a::{house, key};
use crate::app::{Reply, TestApp};
use crate::documents::put;

async fn post(app: &TestApp, key: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    app.send(request(key, headers, body)).await
}

fn request(key: &str, headers: &[(&str, &str)], body: &Value) -> Request<Body> {
    let mut request = Request::post("/mcp")
        .header("authorization", format!("Bearer {key}"))
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

fn ask(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn names(reply: &Reply) -> Vec<&str> {
    let tools = reply.body["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{reply:?}")).iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn keys_see_their_agents_only() {
    let app = house(Settings::default()).await;
    let list = ask("tools/list", json!({}));
    let (all, narrow) = (
        key(&app, KeyUsage::Mcp, &[]).await,
        key(&app, KeyUsage::Mcp, &["two"]).await,
    );
    assert_eq!(names(&post(&app, &all, &[], &list).await), ["one", "two"]);
    assert_eq!(
        names(&post(&app, &app.key, &[], &list).await),
        ["one", "two"]
    );
    assert_eq!(names(&post(&app, &narrow, &[], &list).await), ["two"]);
    let a2a = key(&app, KeyUsage::A2a, &[]).await;
    let reply = post(&app, &a2a, &[], &list).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::FORBIDDEN, "forbidden")
    );
    for tool in ["one", "nobody", "", "agent_1"] {
        let call = ask(
            "tools/call",
            json!({"name": tool, "arguments": {"message": "hi"}}),
        );
        let reply = post(&app, &narrow, &[], &call).await;
        assert_eq!(reply.body["error"]["code"], -32602, "{reply:?}");
    }
}

#[tokio::test]
async fn handshake_returns_revision_and_session() {
    let app = house(Settings::default()).await;
    for (asked, agreed) in [("2025-03-26", "2025-03-26"), ("2030-01-01", "2025-11-25")] {
        let params = json!({"protocolVersion": asked, "capabilities": {}});
        let reply = post(&app, &app.key, &[], &ask("initialize", params)).await;
        assert_eq!(reply.body["result"]["protocolVersion"], agreed, "{reply:?}");
        assert!(!reply.header("mcp-session-id").is_empty());
        assert!(reply.body["result"]["capabilities"]["tools"].is_object());
    }
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(
        post(&app, &app.key, &[], &notice).await.status,
        StatusCode::ACCEPTED
    );
    let reply = post(&app, &app.key, &[], &ask("ping", json!({}))).await;
    assert_eq!(reply.body["result"], json!({}));
}

#[tokio::test]
async fn stateless_requests_name_their_revision() {
    let app = house(Settings::default()).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let headers = |method: &'static str| {
        [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ]
    };
    let discover = ask("server/discover", json!({"_meta": meta}));
    let reply = post(&app, &app.key, &headers("server/discover"), &discover).await;
    assert_eq!(
        reply.body["result"]["supportedVersions"][0], "2026-07-28",
        "{reply:?}"
    );
    assert_eq!(reply.body["result"]["resultType"], "complete");
    let reply = post(&app, &app.key, &headers("tools/list"), &discover).await;
    assert_eq!(
        (reply.status, &reply.body["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!(-32020))
    );
    let ping = ask("ping", json!({"_meta": meta}));
    let reply = post(&app, &app.key, &headers("ping"), &ping).await;
    assert_eq!(
        (reply.status, &reply.body["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!(-32601))
    );
    let reply = post(
        &app,
        &app.key,
        &[("mcp-protocol-version", "2040-01-01")],
        &ping,
    )
    .await;
    assert_eq!(
        (reply.status, &reply.body["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!(-32022))
    );
}

#[tokio::test]
async fn correctable_errors_are_results() {
    let app = house(Settings::default()).await;
    for (arguments, tool, word) in [
        (json!({}), "one", "message"),
        (json!({"message": 1}), "one", "message"),
        (json!({"message": " "}), "one", "message"),
        (json!({"message": "x".repeat(200_001)}), "one", "200"),
        (json!({"message": "hi"}), "local", "read_file"),
    ] {
        let call = ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let reply = post(&app, &app.key, &[], &call).await;
        assert_eq!(reply.body["result"]["isError"], true, "{reply:?}");
        let words = reply.body["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains(word), "{words}");
    }
}

#[tokio::test]
async fn request_ids_belong_to_a_session() {
    let app = house(Settings::default()).await;
    let session = [("mcp-session-id", "mcp_one")];
    let say = |tool: &str, text: &str| {
        let arguments = json!({"message": text});
        ask("tools/call", json!({"name": tool, "arguments": arguments}))
    };
    // There is no worker: the answer is a stream without an end, which is closed at once.
    let begun = request(&app.key, &session, &say("one", "a"));
    let begun = app.router.clone().oneshot(begun).await.unwrap();
    assert_eq!(begun.status(), StatusCode::OK);
    drop(begun);
    for other in [say("one", "b"), say("two", "a")] {
        let reply = post(&app, &app.key, &session, &other).await;
        assert_eq!(reply.body["error"]["code"], -32600, "{reply:?}");
    }
    let runs = app.get("/agent-runs").await;
    assert_eq!(runs.body["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn hides_why_an_agent_is_unavailable() {
    let app = house(Settings::default()).await;
    let tools = json!([{"kind": "mantyx", "id": "secret_ledger"}]);
    let broken = json!({"systemPrompt": "x", "modelId": "platform:silent", "tools": tools});
    put(&app, "/agents/one", broken).await;
    let params = json!({"name": "one", "arguments": {"message": "hi"}});
    let reply = post(&app, &app.key, &[], &ask("tools/call", params)).await;
    let result = &reply.body["result"];
    assert_eq!(result["isError"], true, "{reply:?}");
    assert_eq!(result["content"][0]["text"], "The agent is not available");
}

#[tokio::test]
async fn refuses_foreign_origins() {
    let public = Settings {
        public_url: Some("https://runs.example.com".to_owned()),
        ..Settings::default()
    };
    let app = house(public).await;
    let ping = ask("ping", json!({}));
    for (origin, status) in [
        ("https://runs.example.com", 200),
        ("http://localhost:6274", 200),
        ("https://evil.example", 403),
        ("http://runs.example.com", 403),
        ("null", 403),
    ] {
        let reply = post(&app, &app.key, &[("origin", origin)], &ping).await;
        assert_eq!(reply.status.as_u16(), status, "{origin}: {reply:?}");
    }
}

#[tokio::test]
async fn refuses_unknown_requests() {
    let app = house(Settings::default()).await;
    let reply = post(&app, &app.key, &[], &json!([ask("ping", json!({}))])).await;
    assert_eq!(
        (reply.status, &reply.body["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!(-32600))
    );
    let reply = post(&app, &app.key, &[], &ask("resources/list", json!({}))).await;
    assert_eq!(
        (reply.status, &reply.body["error"]["code"]),
        (StatusCode::OK, &json!(-32601))
    );
    let reply = post(
        &app,
        &app.key,
        &[],
        &ask("tools/list", json!({"cursor": "c"})),
    )
    .await;
    assert_eq!(reply.body["error"]["code"], -32602);
    let call = ask(
        "tools/call",
        json!({"name": "one", "arguments": {"message": "hi"}}),
    );
    let request = Request::post("/mcp")
        .header("x-api-key", &app.key)
        .header("accept", "application/json")
        .header("content-type", "application/json");
    let reply = app
        .send(request.body(Body::from(call.to_string())).unwrap())
        .await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    for (last, status) in [(None, 405), (Some("x"), 400), (Some("run_1.0.31"), 404)] {
        let mut request = Request::get("/mcp").header("x-api-key", &app.key);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let reply = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{last:?}: {reply:?}");
    }
}
