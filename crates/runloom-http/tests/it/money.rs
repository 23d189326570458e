//! Dry runs and the account, as they look on the wire.

use axum::http::StatusCode;
use serde_json::json;

use crate::app::TestApp;

const RUN: &str = r#"{"systemPrompt":"x","prompt":"hello","budgets":{"maxCostUsd":1},
    "tools":[{"kind":"local","name":"look"}]}"#;

#[tokio::test]
async fn a_dry_run_is_answered_at_once_and_creates_nothing() {
    let app = TestApp::new().await;
    let reply = app.post("/agent-runs?dryRun=1", RUN).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.body["dryRun"], true);
    assert_eq!(reply.body["model"]["id"], "platform:silent");
    assert_eq!(reply.body["tools"], json!(["look"]));
    assert!(reply.body["estimatedPromptTokens"].as_u64().unwrap() > 0);
    assert_eq!(reply.body["worstCaseRunUsd"], json!(null));
    assert_eq!(reply.body["warnings"].as_array().unwrap().len(), 1);
    let list = app.get("/agent-runs").await;
    assert_eq!(list.body["runs"], json!([]));
}

#[tokio::test]
async fn a_dry_run_refuses_what_a_run_would_be_refused_for() {
    let app = TestApp::new().await;
    let bad = r#"{"systemPrompt":"x","prompt":"hello","modelId":"nope"}"#;
    for path in ["/agent-runs", "/agent-runs?dryRun=true"] {
        let reply = app.post(path, bad).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(reply.code(), "invalid_model");
    }
    let reply = app.post("/agent-runs?dryRun=perhaps", RUN).await;
    assert_eq!(reply.code(), "invalid_request");
}

#[tokio::test]
async fn a_message_is_never_a_dry_run_and_says_so() {
    let app = TestApp::new().await;
    let session = app.post("/agent-sessions", r#"{"systemPrompt":"x"}"#).await;
    let id = session.body["sessionId"].as_str().unwrap();
    let messages = format!("/agent-sessions/{id}/messages");
    let message = r#"{"prompt":"hello"}"#;
    for query in ["?dryRun=1", "?dryRun=true", "?dryRun", "?dryRun=perhaps"] {
        let reply = app.post(&format!("{messages}{query}"), message).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(reply.body["issues"][0]["path"], "dryRun", "{reply:?}");
    }
    assert_eq!(app.get("/agent-runs").await.body["runs"], json!([]));
    let reply = app.post(&format!("{messages}?dryRun=0"), message).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
}

#[tokio::test]
async fn an_account_of_nothing_has_its_shape() {
    let app = TestApp::new().await;
    let reply = app
        .get("/usage?from=2026-10-01&to=2026-10-31T12:00:00Z&groupBy=key")
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let nothing = json!({"runs": 0, "turns": 0, "inputTokens": 0, "cachedTokens": 0, "reasoningTokens": 0,
        "outputTokens": 0, "costUsd": 0.0});
    let expected = json!({"from": "2026-10-01", "to": "2026-10-31", "groupBy": "key", "rows": [], "total": nothing});
    assert_eq!(reply.body, expected);
    assert_eq!(app.get("/usage").await.body["groupBy"], "day");
}

#[tokio::test]
async fn bad_parameters_are_refused_by_name() {
    let app = TestApp::new().await;
    for query in [
        "from=today",
        "to=2026-02-30",
        "groupBy=week",
        "from=2026-10-02&to=2026-10-01",
    ] {
        let reply = app.get(&format!("/usage?{query}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(reply.code(), "invalid_request", "{query}");
    }
}
