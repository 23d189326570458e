//! Secrets: used where they are named, shown nowhere.

use axum::http::StatusCode;
use runloom_ports::tools::{ToolDefinitions, fill_secrets, plugin_tool};
use serde_json::json;

use crate::app::TestApp;
use crate::documents::{call, put, run};

const CANARY: &str = "canary-7c1f-do-not-show";

#[tokio::test]
async fn clients_cannot_name_secrets() {
    let app = TestApp::new().await;
    put(&app, "/secrets/KEY", json!({"value": CANARY})).await;
    let tool = json!({"kind": "mcp", "name": "x", "url": "https://evil.example/", "headers": {"A": "{{secret:KEY}}"}});
    let reply = run(
        &app,
        json!({"systemPrompt": "x", "prompt": "Hi", "tools": [tool]}),
    )
    .await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    assert_eq!(reply.body["issues"][0]["path"], "tools[0].headers.A");
}

#[tokio::test]
async fn secrets_are_never_shown_or_stored_in_clear() {
    let app = TestApp::new().await;
    let literal = format!("Bearer {CANARY}-2");
    put(&app, "/secrets/KEY", json!({"value": CANARY})).await;
    let tool = json!({"type": "http", "url": "https://a.example/", "headers": {"A": "{{secret:KEY}}", "B": literal}});
    put(&app, "/tools/t", tool.clone()).await;
    put(
        &app,
        "/tools/t",
        json!({"type": "http", "url": "https://b.example/", "headers": {"B": literal}}),
    )
    .await;
    put(&app, "/agents/a", json!({"systemPrompt": "x", "tools": [{"kind": "mcp", "name": "m", "url": "https://m.example/", "headers": {"A": literal}}]})).await;
    put(&app, "/plugins/p", json!({"tools": [{"name": "t", "type": "http", "url": "https://a.example/", "headers": {"B": literal}}]})).await;
    put(
        &app,
        "/external-agents/e",
        json!({"agentCardUrl": "https://e.example/", "headers": {"B": literal}}),
    )
    .await;
    put(
        &app,
        "/providers/p",
        json!({"kind": "demo", "apiKey": literal, "models": [{"id": "m"}]}),
    )
    .await;

    let mut answers = String::new();
    for path in [
        "/secrets",
        "/secrets/KEY",
        "/tools",
        "/tools/t",
        "/agents",
        "/agents/a",
        "/plugins",
        "/external-agents",
        "/providers",
    ] {
        let reply = call(&app, "GET", path, None).await;
        assert_eq!(reply.status, StatusCode::OK);
        answers.push_str(&format!("{reply:?}"));
    }
    answers.push_str(&format!("{:?}", app.get("/models").await));
    let refused = call(
        &app,
        "PUT",
        "/secrets/KEY",
        Some(json!({"value": CANARY, "x": 1})),
    )
    .await;
    answers.push_str(&format!("{refused:?}"));
    assert!(!answers.contains(CANARY), "{answers}");
    assert!(!answers.contains("sealed:"), "{answers}");

    let mut files = 0;
    for file in std::fs::read_dir(app.folder()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        files += 1;
        let found = bytes
            .windows(CANARY.len())
            .any(|part| part == CANARY.as_bytes());
        assert!(!found, "a secret is in a file of the database");
    }
    assert!(files > 0);
}

#[tokio::test]
async fn tools_get_unsealed_values() {
    let app = TestApp::new().await;
    let literal = format!("Bearer {CANARY}-2");
    put(&app, "/secrets/KEY", json!({"value": CANARY})).await;
    let headers = json!({"B": literal});
    put(
        &app,
        "/tools/t",
        json!({"type": "http", "url": "https://b.example/", "headers": headers}),
    )
    .await;
    put(
        &app,
        "/plugins/p",
        json!({"tools": [{"name": "t", "type": "http", "url": "https://a.example/"}]}),
    )
    .await;
    put(
        &app,
        "/external-agents/e",
        json!({"agentCardUrl": "https://e.example/"}),
    )
    .await;
    let registry = app.service.registry();
    let secret = registry.secret("acme", "KEY").await.unwrap().unwrap();
    assert_eq!(secret.expose(), CANARY);
    assert!(!format!("{secret:?}").contains(CANARY));
    let filled = fill_secrets(&**registry, "acme", "Bearer {{secret:KEY}}")
        .await
        .unwrap();
    assert_eq!(filled.expose(), format!("Bearer {CANARY}"));
    let tool = registry.tool("acme", "t").await.unwrap().unwrap();
    assert!(serde_json::to_string(&tool).unwrap().contains(&literal));
    assert!(registry.tool("acme", "e").await.unwrap().is_some());
    assert!(
        plugin_tool(&**registry, "acme", "@p/t")
            .await
            .unwrap()
            .is_some()
    );
    assert!(registry.secret("acme", "NO").await.unwrap().is_none());
}
