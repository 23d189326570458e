//! Refusals of request bodies.

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use runloom_http::Settings;
use runloom_protocol::limits::{TOOL_FILES_MAX_BYTES, TOOL_RESULT_MAX_BYTES};
use runloom_service::rate::RateLimits;
use serde_json::json;

use crate::app::{Reply, TestApp};

const RUNS: &str = "/agent-runs";

fn message(reply: &Reply) -> &str {
    reply.body["issues"][0]["message"]
        .as_str()
        .unwrap_or_default()
}

async fn small() -> TestApp {
    let settings = Settings {
        max_body_bytes: 100,
        ..Settings::default()
    };
    TestApp::with(RateLimits::default(), settings).await
}

#[tokio::test]
async fn locates_syntax_errors() {
    let app = TestApp::new().await;
    let reply = app.post(RUNS, "{\n  \"prompt\": nope\n}").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.code(), "invalid_request");
    assert!(message(&reply).contains("line 2, column"), "{reply:?}");
}

#[tokio::test]
async fn replaces_a_lone_surrogate() {
    let app = TestApp::new().await;
    let body = r#"{"systemPrompt":"x","prompt":"cut \ud83d","metadata":{"a":"\\ud83d \ud83d\ude00 \ude00"}}"#;
    let reply = app.post(RUNS, body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    let run = &app.get(RUNS).await.body["runs"][0];
    assert_eq!(run["inputPreview"], "cut \u{fffd}");
    assert_eq!(run["metadata"]["a"], "\\ud83d \u{1f600} \u{fffd}");
}

#[tokio::test]
async fn accepts_the_largest_tool_result() {
    let results = "/agent-runs/run_x/tool-results";
    let file = json!({"filename": "f", "mimeType": "text/plain", "data": "A".repeat(4 * TOOL_FILES_MAX_BYTES / 3 / 4 * 4)});
    let result = "\u{1b}".repeat(TOOL_RESULT_MAX_BYTES);
    let whole = json!({"toolUseId": "tu_x", "result": result, "files": [file]}).to_string();
    let limited = async |max_body_bytes| {
        let settings = Settings {
            max_body_bytes,
            ..Settings::default()
        };
        TestApp::with(RateLimits::default(), settings).await
    };
    let by_default = Settings::default().max_body_bytes;
    for (limit, status) in [
        (by_default, StatusCode::NOT_FOUND),
        (2 * by_default, StatusCode::NOT_FOUND),
        // An operator who lowers the limit means every body.
        (by_default - 1, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let reply = limited(limit).await.post(results, whole.clone()).await;
        assert_eq!(reply.status, status, "{limit}: {reply:?}");
    }
    let reply = limited(by_default).await.post(RUNS, whole).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE, "{reply:?}");
}

#[tokio::test]
async fn names_an_empty_body() {
    let app = TestApp::new().await;
    let reply = app.post(RUNS, " ").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(message(&reply).contains("is empty"), "{reply:?}");
    let request = app.request("POST", RUNS).body(Body::empty()).unwrap();
    let reply = app.send(request).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(message(&reply).contains("is empty"), "{reply:?}");
}

#[tokio::test]
async fn deep_nesting_is_refused() {
    let app = TestApp::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let reply = app.post(RUNS, deep).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(message(&reply).contains("nested deeper"), "{reply:?}");
}

#[tokio::test]
async fn lists_every_violation() {
    let app = TestApp::new().await;
    let body =
        r#"{"systemPrompt":"x","prompt":"y","reasoningLevel":101,"budgets":{"maxToolTurns":0}}"#;
    let reply = app.post(RUNS, body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.code(), "invalid_request");
    let issues = reply.body["issues"].as_array().unwrap();
    let paths: Vec<_> = issues
        .iter()
        .filter_map(|issue| issue["path"].as_str())
        .collect();
    assert!(paths.contains(&"reasoningLevel") && paths.contains(&"budgets.maxToolTurns"));
}

#[tokio::test]
async fn accepts_a_valid_body() {
    let app = TestApp::new().await;
    for content_type in [
        "application/json; charset=utf-8",
        "application/vnd.mantyx+json",
    ] {
        let request = app
            .request("POST", RUNS)
            .header("content-type", content_type);
        let body = Body::from(r#"{"systemPrompt":"x","prompt":"y"}"#);
        let reply = app.send(request.body(body).unwrap()).await;
        assert!(
            !reply.status.is_client_error(),
            "a valid request was refused: {reply:?}"
        );
    }
}

#[tokio::test]
async fn refuses_other_media_types() {
    let app = TestApp::new().await;
    for headers in [
        &[("content-type", "text/plain")][..],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[],
        &[
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ],
    ] {
        let mut request = app.request("POST", RUNS);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = app.send(request.body(Body::from("{}")).unwrap()).await;
        assert_eq!(
            reply.status,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "{headers:?}"
        );
        assert_eq!(reply.code(), "unsupported_media_type");
    }
}

#[tokio::test]
async fn refuses_large_bodies() {
    let app = small().await;
    let announced = app.post(RUNS, "x".repeat(101)).await;
    let chunks =
        stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"0123456789"))));
    let unannounced = app.post(RUNS, Body::from_stream(chunks)).await;
    for reply in [announced, unannounced] {
        assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(reply.code(), "payload_too_large");
        assert!(reply.body["message"].as_str().unwrap().contains("100"));
    }
}

#[tokio::test]
async fn broken_body_is_a_client_error() {
    let app = TestApp::new().await;
    let chunks = stream::iter([
        Ok(Bytes::from_static(b"{\"prompt\":")),
        Err(std::io::Error::other("gone")),
    ]);
    let reply = app.post(RUNS, Body::from_stream(chunks)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.code(), "invalid_request");
}

#[tokio::test]
async fn slow_body_is_a_client_error() {
    let settings = Settings {
        body_timeout: std::time::Duration::from_millis(1),
        ..Settings::default()
    };
    let app = TestApp::with(RateLimits::default(), settings).await;
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{\"prompt\":"))]);
    let half = futures_util::StreamExt::chain(first, stream::pending());
    let reply = app.post(RUNS, Body::from_stream(half)).await;
    assert_eq!(reply.status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(reply.code(), "request_timeout");
    assert_eq!(reply.headers["connection"], "close");
}

#[tokio::test]
async fn idempotency_keys_are_checked() {
    let app = TestApp::new().await;
    let send = |key: String| {
        let request = app
            .request("POST", RUNS)
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        app.send(request.body(Body::from("{}")).unwrap())
    };
    for bad in [
        String::new(),
        "k".repeat(256),
        "tab\there".to_owned(),
        "é".to_owned(),
    ] {
        let reply = send(bad).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert_eq!(
            reply.body["issues"][0]["path"], "Idempotency-Key",
            "{reply:?}"
        );
    }
    let reply = send("k".repeat(255)).await;
    assert_ne!(reply.body["issues"][0]["path"], "Idempotency-Key");
}

#[tokio::test]
async fn cancel_and_delete_need_no_body() {
    let app = TestApp::new().await;
    for (method, path) in [
        ("POST", "/agent-runs/run_x/cancel"),
        ("DELETE", "/agent-sessions/ses_x"),
    ] {
        let reply = app
            .send(app.request(method, path).body(Body::empty()).unwrap())
            .await;
        assert_ne!(reply.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_ne!(reply.status, StatusCode::BAD_REQUEST);
    }
}
