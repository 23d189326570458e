//! What accepted requests are answered with, as far as that needs no worker.

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::app::{Reply, TestApp};

const RUN: &str = r#"{"systemPrompt":"x","prompt":"hello","metadata":{"team":"a"}}"#;

async fn post_once(app: &TestApp, path: &str, key: &str, body: &'static str) -> Reply {
    let request = app
        .request("POST", path)
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    app.send(request.body(Body::from(body)).unwrap()).await
}

async fn new_run(app: &TestApp) -> String {
    let reply = app.post("/agent-runs", RUN).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    reply.body["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn creates_and_shows_a_run() {
    let app = TestApp::new().await;
    let reply = app.post("/agent-runs", RUN).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let id = reply.body["runId"].as_str().unwrap();
    let url = format!("/api/v1/workspaces/acme/agent-runs/{id}/stream");
    assert_eq!(reply.body["streamUrl"], url);
    let run = app.get(&format!("/agent-runs/{id}")).await;
    assert_eq!(run.status, StatusCode::OK);
    assert_eq!(run.body["status"], "queued");
    for key in ["tokens", "turns", "model"] {
        assert_eq!(run.body.get(key), Some(&Value::Null), "{key}");
    }
}

#[tokio::test]
async fn idempotency_key_repeats_the_response() {
    let app = TestApp::new().await;
    let first = post_once(&app, "/agent-runs", "k1", RUN).await;
    let again = post_once(&app, "/agent-runs", "k1", RUN).await;
    assert_eq!(again.status, StatusCode::ACCEPTED);
    assert_eq!(first.body["runId"], again.body["runId"]);
    let other = post_once(&app, "/agent-runs", "k2", RUN).await;
    assert_ne!(first.body["runId"], other.body["runId"]);
    let changed = r#"{"systemPrompt":"x","prompt":"other"}"#;
    let refused = post_once(&app, "/agent-runs", "k1", changed).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert_eq!(refused.code(), "idempotency_conflict");
}

#[tokio::test]
async fn lists_runs_by_filter() {
    let app = TestApp::new().await;
    let (older, newer) = (new_run(&app).await, new_run(&app).await);
    let page = app
        .get("/agent-runs?limit=1&includeTotal=true&metadata=team:a")
        .await;
    assert_eq!(page.body["runs"][0]["id"], newer);
    assert_eq!(page.body["total"], 2);
    let cursor = page.body["nextCursor"].as_str().unwrap();
    let rest = app
        .get(&format!("/agent-runs?limit=1&cursor={cursor}"))
        .await;
    assert_eq!(rest.body["runs"][0]["id"], older);
    assert_eq!(rest.body["nextCursor"], Value::Null);
    let contradiction = "/agent-runs?metadata=team:b&metadata=team:a";
    assert_eq!(app.get(contradiction).await.body["runs"], json!([]));
    let none = app.get("/agent-runs?metadata=team:b").await;
    assert_eq!(none.body["runs"], json!([]));
    assert_eq!(none.body["total"], Value::Null);
}

#[tokio::test]
async fn unknown_model_names_candidates() {
    let app = TestApp::new().await;
    let body = r#"{"systemPrompt":"x","prompt":"y","modelId":"platform:silnt"}"#;
    let reply = app.post("/agent-runs", body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.code(), "invalid_model");
    assert_eq!(reply.body["candidates"], json!(["platform:silent"]));
}

#[tokio::test]
async fn cancel_is_idempotent() {
    let app = TestApp::new().await;
    let id = new_run(&app).await;
    let answer = r#"{"toolUseId":"tu_x","result":""}"#;
    let reply = app
        .post(&format!("/agent-runs/{id}/tool-results"), answer)
        .await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.code(), "unknown_tool_use");
    for _ in 0..2 {
        let request = app.request("POST", &format!("/agent-runs/{id}/cancel"));
        let reply = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.body, json!({"ok": true}));
    }
}

#[tokio::test]
async fn stream_opens_at_once() {
    let app = TestApp::new().await;
    let id = new_run(&app).await;
    let request = app.request("GET", &format!("/agent-runs/{id}/stream"));
    let request = request.body(Body::empty()).unwrap();
    let response = app.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    assert_eq!(response.headers()["x-ratelimit-bucket"], "reads");
    let mut body = response.into_body().into_data_stream();
    let opening = body.next().await.unwrap().unwrap();
    assert!(opening.starts_with(b"retry:"));
    app.shutdown.end_streams();
    while let Some(chunk) = body.next().await {
        chunk.unwrap();
    }
    let events = app.get(&format!("/agent-runs/{id}/events")).await;
    assert_eq!(
        events.body,
        json!({"events": [], "lastSeq": 0, "truncated": false})
    );
}

#[tokio::test]
async fn session_lives_until_its_end() {
    let app = TestApp::new().await;
    let made = app.post("/agent-sessions", r#"{"systemPrompt":"x"}"#).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let path = format!(
        "/agent-sessions/{}",
        made.body["sessionId"].as_str().unwrap()
    );
    let session = app.get(&path).await;
    assert_eq!(session.body["status"], "active");
    assert_eq!(session.body["messages"], json!([]));
    let messages = format!("{path}/messages");
    let sent = app.post(&messages, r#"{"prompt":"hello"}"#).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED);
    let listed = app.get("/agent-sessions?status=active").await;
    assert_eq!(
        listed.body["sessions"][0]["sessionId"],
        made.body["sessionId"]
    );
    let delete = app.request("DELETE", &path).body(Body::empty()).unwrap();
    assert_eq!(app.send(delete).await.status, StatusCode::OK);
    let refused = app.post(&messages, r#"{"prompt":"hello"}"#).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert_eq!(refused.code(), "session_ended");
}
