//! Who gets in, in which order it is checked, and how often.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::Settings;
use runloom_ports::store::{KeyUsage, Millis};
use runloom_service::rate::RateLimits;
use runloom_service::tenancy::{CreateKey, PutWorkspace};

use crate::app::{Reply, TestApp};

async fn models(app: &TestApp, slug: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().uri(format!("/api/v1/workspaces/{slug}/models"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn missing_credential_is_explained() {
    let app = TestApp::new().await;
    let reply = models(&app, "acme", &[]).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(reply.code(), "unauthorized");
    assert_eq!(reply.body["error"], "Unauthorized");
    let message = reply.body["message"].as_str().unwrap();
    assert!(message.starts_with("API key or OAuth access token required"));
    assert!(reply.header("www-authenticate").starts_with("Bearer"));
}

#[tokio::test]
async fn refuses_unknown_credentials() {
    let app = TestApp::new().await;
    for headers in [
        [("authorization", "Bearer mantyx_unknown_key")],
        [("x-api-key", "mantyx_unknown_key")],
        [("x-api-key", "mantyx_\u{e9}")],
    ] {
        let reply = models(&app, "acme", &headers).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
        assert_eq!(reply.code(), "unauthorized");
        assert_eq!(reply.body["error"], "Invalid API key or OAuth access token");
        assert!(reply.header("www-authenticate").contains("invalid_token"));
    }
}

#[tokio::test]
async fn accepts_either_header() {
    let app = TestApp::new().await;
    let bearer = format!("Bearer {}", app.key);
    for headers in [
        [("authorization", bearer.as_str())],
        [("x-api-key", &app.key)],
    ] {
        let reply = models(&app, "acme", &headers).await;
        assert_eq!(reply.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn wrong_slug_names_the_right_one() {
    let app = TestApp::new().await;
    let reply = models(&app, "other", &[("x-api-key", &app.key)]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.code(), "not_found");
    assert_eq!(
        reply.body["error"],
        "Workspace path does not match this credential"
    );
    assert!(reply.body["hint"].as_str().unwrap().contains("acme"));
}

#[tokio::test]
async fn refuses_keys_of_another_usage() {
    let app = TestApp::new().await;
    let create = CreateKey {
        usage: KeyUsage::Mcp,
        ..CreateKey::default()
    };
    let tenancy = app.service.tenancy();
    let key = tenancy
        .create_key("acme", create, Millis(0))
        .await
        .unwrap()
        .key;
    let reply = models(&app, "acme", &[("x-api-key", &key)]).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.code(), "forbidden");
    assert_eq!(
        reply.body["error"],
        "This API key is not for the Developer API"
    );
    assert!(reply.body["hint"].is_string());
}

#[tokio::test]
async fn plan_without_keys_has_its_code() {
    let app = TestApp::new().await;
    let put = PutWorkspace {
        without: Some(vec!["apiKeys".to_owned()]),
        ..PutWorkspace::default()
    };
    app.service
        .tenancy()
        .put_workspace("acme", put, Millis(1))
        .await
        .unwrap();
    let reply = app.get("/models").await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.code(), "api_keys_plan");
}

#[tokio::test]
async fn checks_credentials_before_the_body() {
    let app = TestApp::new().await;
    let request = Request::builder()
        .method("POST")
        .uri("/api/v1/workspaces/acme/agent-runs")
        .body(Body::from("not json"))
        .unwrap();
    assert_eq!(app.send(request).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn responses_have_rate_headers() {
    let app = TestApp::new().await;
    let reads = app.get("/models").await;
    assert_eq!(reads.header("x-ratelimit-limit"), "6000");
    assert_eq!(reads.header("x-ratelimit-remaining"), "5999");
    assert_eq!(reads.header("x-ratelimit-bucket"), "reads");
    let starts = app.post("/agent-runs", "{}").await;
    assert_eq!(starts.status, StatusCode::BAD_REQUEST);
    assert_eq!(starts.header("x-ratelimit-bucket"), "run_starts");
    let lifecycle = app.post("/agent-runs/run_x/cancel", "").await;
    assert_eq!(lifecycle.header("x-ratelimit-bucket"), "lifecycle");
    let writes = app.post("/agent-sessions", "{}").await;
    assert_eq!(writes.header("x-ratelimit-bucket"), "writes");
}

#[tokio::test]
async fn refuses_requests_over_the_limit() {
    let limits = RateLimits {
        reads_per_minute: 2,
        ..RateLimits::default()
    };
    let app = TestApp::with(limits, Settings::default()).await;
    for _ in 0..2 {
        assert_eq!(app.get("/models").await.status, StatusCode::OK);
    }
    let reply = app.get("/models").await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reply.code(), "rate_limit_exceeded");
    assert_eq!(reply.body["error"], "rate_limited");
    assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    let wait: u32 = reply.header("retry-after").parse().unwrap();
    assert!((1..=61).contains(&wait));
    assert_eq!(reply.header("x-ratelimit-reset"), wait.to_string());
    // Another bucket of the same credential is still open.
    let reply = app.post("/agent-runs/run_x/cancel", "").await;
    assert_ne!(reply.status, StatusCode::TOO_MANY_REQUESTS);
}
