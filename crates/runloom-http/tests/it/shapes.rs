//! Refusals have one shape; health routes and headers.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::app::TestApp;

fn open(method: &str, path: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn unknown_path_is_a_json_error() {
    let app = TestApp::new().await;
    for path in [
        "/nowhere",
        "/api/v1/workspaces/acme/nothing",
        "/api/admin/v1/nothing",
    ] {
        let reply = app.send(open("GET", path)).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.code(), "not_found");
    }
}

#[tokio::test]
async fn wrong_method_names_the_allowed_ones() {
    let app = TestApp::new().await;
    let reply = app
        .send(open("PATCH", "/api/v1/workspaces/acme/agent-runs"))
        .await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(reply.code(), "method_not_allowed");
    let allow = reply.header("allow");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn binary_path_is_404() {
    let app = TestApp::new().await;
    let reply = app.get("/agent-runs/%FF").await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.code(), "not_found");
}

#[tokio::test]
async fn unknown_resources_are_404() {
    let app = TestApp::new().await;
    for path in ["/agent-runs/run_x", "/agent-sessions/ses_x"] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
        assert_eq!(reply.code(), "not_found");
        assert_eq!(reply.body["error"], "not_found");
        assert!(reply.body.get("hint").is_none());
    }
}

#[tokio::test]
async fn unavailable_has_retry_after() {
    let app = TestApp::new().await;
    app.shutdown.end_streams();
    let reply = app.send(open("GET", "/ready")).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.code(), "unavailable");
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(app.send(open("GET", "/live")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn health_needs_no_credential() {
    let app = TestApp::new().await;
    for path in ["/health", "/live", "/info", "/openapi.json"] {
        let reply = app.send(open("GET", path)).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        assert!(reply.body.is_object(), "{path}");
    }
    let info = app.send(open("GET", "/info")).await;
    assert_eq!(info.body["name"], "runloom");
}

#[tokio::test]
async fn keeps_valid_request_ids() {
    let app = TestApp::new().await;
    for (given, kept) in [
        ("abc-1.2_3", true),
        ("bad id", false),
        (&"x".repeat(129), false),
    ] {
        let mut request = open("GET", "/health");
        request
            .headers_mut()
            .insert("x-request-id", given.parse().unwrap());
        let reply = app.send(request).await;
        assert_eq!(reply.header("x-request-id") == given, kept, "{given}");
    }
    let (one, two) = (
        app.send(open("GET", "/health")).await,
        app.send(open("GET", "/nowhere")).await,
    );
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[tokio::test]
async fn responses_are_not_cached() {
    let app = TestApp::new().await;
    let reply = app.get("/models").await;
    assert_eq!(reply.header("cache-control"), "no-store");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn lists_agents_and_models() {
    let app = TestApp::new().await;
    assert_eq!(
        app.get("/agents").await.body,
        serde_json::json!({"agents": []})
    );
    let models = app.get("/models").await;
    assert_eq!(models.status, StatusCode::OK);
    assert!(models.body["models"].is_array());
}

#[tokio::test]
async fn refuses_malformed_cursors_and_filters() {
    let app = TestApp::new().await;
    for (path, place) in [
        ("/agent-runs/run_x/stream?lastSeq=-1", "lastSeq"),
        ("/agent-runs/run_x/events?after=x", "after"),
        ("/agent-runs/run_x/events?limit=0", "limit"),
        ("/agent-runs?status=done", "status"),
        ("/agent-runs?limit=201", "limit"),
        ("/agent-runs?metadata=x", "metadata"),
        ("/agent-runs?metadata.env=prod", "metadata.env"),
        ("/agent-sessions?metadata[env]=prod", "metadata[env]"),
        ("/agent-runs?includeTotal=perhaps", "includeTotal"),
        ("/agent-sessions?status=queued", "status"),
        (
            "/agent-sessions/ses_x/events?lastMessages=501",
            "lastMessages",
        ),
        ("/agent-sessions/ses_x/events?full&beforeSeq=3", "full"),
    ] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(reply.code(), "invalid_request");
        assert_eq!(reply.body["issues"][0]["path"], place, "{path}");
    }
}

#[tokio::test]
async fn query_overrides_last_event_id() {
    let app = TestApp::new().await;
    let stream = |query: &str| {
        let path = format!("/agent-runs/run_x/stream{query}");
        let request = app.request("GET", &path).header("last-event-id", "abc");
        request.body(Body::empty()).unwrap()
    };
    let reply = app.send(stream("")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.body["issues"][0]["path"], "Last-Event-ID");
    let reply = app.send(stream("?lastSeq=3")).await;
    assert_ne!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn empty_cursor_is_absent() {
    let app = TestApp::new().await;
    let reply = app.get("/agent-runs/run_x/stream?lastSeq=").await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}
