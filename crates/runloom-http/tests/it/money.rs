//! Dry runs and the account, as they look on the wire.

use axum::http::StatusCode;
use serde_json::json;

use crate::app::TestApp;

const RUN: &str = r#"{"systemPrompt":"x","prompt":"hello","budgets":{"maxCostUsd":1},
    "tools":[{"kind":"local","name":"look"}]}"#;

#[tokio::test]
async fn dry_run_creates_nothing() {
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
async fn dry_run_warns_about_unused_fields() {
    let app = TestApp::new().await;
    let body = r#"{"systemPrompt":"x","prompt":"hello","toolBudget":{},"budgets":{"maxCostUsd":1,"maxSteps":3},
        "toolBudgets":{"look":{"maxCalls":1},"loook":{"maxCalls":1}},
        "tools":[{"kind":"local","name":"look"},{"kind":"local","name":"find","parameters":"x"},
                 {"kind":"local","name":"list","parameters":{"type":"array"}}]}"#;
    let reply = app.post("/agent-runs?dryRun=1", body).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let warnings = reply.body["warnings"].to_string();
    for said in [
        "`toolBudget` is not read by this server; did you mean `toolBudgets`?",
        "`budgets.maxSteps` is not read",
        "toolBudgets names `loook`",
        "the schema of `find` is not that of an object",
        "the schema of `list` is not that of an object",
    ] {
        assert!(warnings.contains(said), "{said} is not in {warnings}");
    }
    assert!(!warnings.contains("`look`"), "{warnings}");
    // Other SDKs may know more fields than this server; a run does not fail by them.
    let reply = app.post("/agent-runs", body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    // A slip inside the limits would leave the run without the limit that its author believes in.
    let slip = body.replace("maxSteps", "maxToolTurn");
    for path in ["/agent-runs", "/agent-runs?dryRun=1"] {
        let reply = app.post(path, slip.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
        let issue = &reply.body["issues"][0];
        assert_eq!(issue["path"], "budgets.maxToolTurn");
        assert!(
            issue["message"]
                .as_str()
                .unwrap()
                .contains("`maxToolTurns`")
        );
    }
}

#[tokio::test]
async fn dry_run_refuses_like_a_run() {
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
async fn messages_refuse_dry_run() {
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
async fn empty_usage_has_its_fields() {
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
async fn refuses_invalid_parameters() {
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
