//! What people think of runs' answers.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::app::TestApp;

async fn new_run(app: &TestApp) -> String {
    let reply = app
        .post("/agent-runs", r#"{"systemPrompt":"x","prompt":"hello"}"#)
        .await;
    reply.body["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn replaces_earlier_feedback() {
    let app = TestApp::new().await;
    let run = new_run(&app).await;
    let path = format!("/agent-runs/{run}/feedback");
    let first = app
        .post(&path, r#"{"verdict":"UP","explanation":"good","new":1}"#)
        .await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    assert_eq!(first.headers["x-ratelimit-bucket"], "lifecycle");
    let id = first.body["id"].as_str().unwrap();
    assert!(id.starts_with("fb_"), "{id}");
    let wanted = json!({"id": id, "verdict": "UP", "targetKind": "agent_run", "agentRunId": run});
    assert_eq!(first.body, wanted);
    let again = app
        .post(&path, r#"{"verdict":"DOWN","contentSnapshot":"seen"}"#)
        .await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(
        (&again.body["id"], &again.body["verdict"]),
        (&json!(id), &json!("DOWN"))
    );
    let list = app.get("/reply-feedback?includeTotal=1").await;
    assert_eq!(list.status, StatusCode::OK);
    assert_eq!(list.body["total"], 1);
    assert_eq!(list.body["nextCursor"], Value::Null);
    let item = &list.body["feedback"][0];
    assert_eq!(item["explanation"], Value::Null, "it replaces all of it");
    assert_eq!(item["contentSnapshot"], "seen");
    assert_eq!(item["agentRunId"], run.as_str());
}

#[tokio::test]
async fn lists_feedback() {
    let app = TestApp::new().await;
    let mut runs = Vec::new();
    for verdict in ["UP", "DOWN", "UP"] {
        let run = new_run(&app).await;
        let body = json!({"verdict": verdict}).to_string();
        app.post(&format!("/agent-runs/{run}/feedback"), body).await;
        runs.push(run);
    }
    let found = async |query: &str| -> Vec<String> {
        let list = app.get(&format!("/reply-feedback?{query}")).await;
        assert_eq!(list.status, StatusCode::OK, "{list:?}");
        let items = list.body["feedback"].as_array().unwrap().iter();
        items
            .map(|item| item["agentRunId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(found("verdict=UP").await, [&*runs[2], &*runs[0]]);
    assert_eq!(found(&format!("agentRunId={}", runs[1])).await, [&*runs[1]]);
    assert!(found("sessionId=ses_nobody").await.is_empty());
    assert!(found("agentId=agent_nobody").await.is_empty());
    let page = app.get("/reply-feedback?limit=2").await;
    let cursor = page.body["nextCursor"].as_str().unwrap();
    assert_eq!(
        found(&format!("limit=2&cursor={cursor}")).await,
        [&*runs[0]]
    );
    for bad in ["verdict=up", "agentRunId=x", "cursor=x", "limit=0"] {
        let refused = app.get(&format!("/reply-feedback?{bad}")).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{bad}");
        assert_eq!(refused.code(), "invalid_request");
    }
}

#[tokio::test]
async fn refuses_invalid_feedback() {
    let app = TestApp::new().await;
    let run = new_run(&app).await;
    let path = format!("/agent-runs/{run}/feedback");
    let long = "é".repeat(8_001);
    let whole = "x".repeat(200_001);
    for (body, place) in [
        (json!({}), "verdict"),
        (json!({"verdict": "up"}), "verdict"),
        (json!({"verdict": 1}), "verdict"),
        (json!({"verdict": "UP", "explanation": long}), "explanation"),
        (
            json!({"verdict": "UP", "contentSnapshot": whole}),
            "contentSnapshot",
        ),
    ] {
        let refused = app.post(&path, body.to_string()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
        assert_eq!(refused.body["issues"][0]["path"], place);
    }
    for nobody in ["run_nobody", "nonsense"] {
        let path = format!("/agent-runs/{nobody}/feedback");
        let refused = app.post(&path, r#"{"verdict":"UP"}"#).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND);
        assert_eq!(refused.code(), "not_found");
    }
    let list = app.get("/reply-feedback").await;
    assert_eq!(list.body["feedback"], json!([]));
}
