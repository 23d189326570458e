//! Requests of pages of other origins.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::{CorsOrigins, Settings};
use runloom_service::rate::RateLimits;

use crate::app::{Reply, TestApp};

const PAGE: &str = "https://app.example";

async fn app(origins: &[&str]) -> TestApp {
    let origins = origins.iter().map(ToString::to_string).collect();
    let settings = Settings {
        cors_origins: CorsOrigins::new(origins),
        ..Settings::default()
    };
    TestApp::with(RateLimits::default(), settings).await
}

async fn send(app: &TestApp, method: &str, path: &str, origin: Option<&str>) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

fn names_no_origin(reply: &Reply) -> bool {
    let cors = |name: &str| name.starts_with("access-control-") || name == "vary";
    !reply.headers.keys().any(|name| cors(name.as_str()))
}

#[tokio::test]
async fn preflight_needs_no_credential() {
    let app = app(&["https://other.example", PAGE]).await;
    for path in [
        "/api/v1/workspaces/acme/agent-runs",
        "/api/v1/workspaces/acme/agent-sessions/ses_x/history",
        "/api/v1/nowhere",
    ] {
        let reply = send(&app, "OPTIONS", path, Some(PAGE)).await;
        assert_eq!(reply.status, StatusCode::NO_CONTENT, "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), PAGE);
        assert_eq!(
            reply.header("access-control-allow-methods"),
            "GET, POST, DELETE"
        );
        assert_eq!(
            reply.header("access-control-allow-headers"),
            "authorization, content-type, x-api-key, idempotency-key, last-event-id"
        );
        assert_eq!(reply.header("access-control-max-age"), "600");
        assert_eq!(reply.header("vary"), "Origin");
        let credentials = reply.headers.get("access-control-allow-credentials");
        assert!(credentials.is_none());
    }
}

#[tokio::test]
async fn listed_origins_can_read_responses_and_refusals() {
    let app = app(&[PAGE]).await;
    let request = app.request("GET", "/models").header("origin", PAGE);
    let found = app.send(request.body(Body::empty()).unwrap()).await;
    let refused = send(&app, "GET", "/api/v1/workspaces/acme/models", Some(PAGE)).await;
    let unknown = send(&app, "GET", "/api/v1/nowhere", Some(PAGE)).await;
    assert_eq!(found.status, StatusCode::OK);
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    for reply in [found, refused, unknown] {
        assert_eq!(reply.header("access-control-allow-origin"), PAGE);
        assert_eq!(reply.header("vary"), "Origin");
        assert_eq!(
            reply.header("access-control-expose-headers"),
            "X-Request-Id, Retry-After"
        );
        assert!(!reply.headers.contains_key("access-control-allow-methods"));
    }
}

#[tokio::test]
async fn other_requests_get_no_headers() {
    let listed = app(&[PAGE]).await;
    let none = app(&[]).await;
    let runs = "/api/v1/workspaces/acme/agent-runs";
    for (app, method, path, origin) in [
        (&listed, "GET", runs, None),
        (&listed, "GET", runs, Some("https://app.example.org")),
        (&listed, "OPTIONS", runs, Some("null")),
        (&listed, "GET", "/health", Some(PAGE)),
        (&listed, "OPTIONS", "/api/admin/v1/workspaces", Some(PAGE)),
        (&none, "OPTIONS", runs, Some(PAGE)),
    ] {
        let reply = send(app, method, path, origin).await;
        assert!(
            names_no_origin(&reply),
            "{method} {path} {origin:?}: {reply:?}"
        );
        assert_ne!(reply.status, StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn star_allows_every_origin() {
    let app = app(&["*"]).await;
    for origin in [PAGE, "http://localhost:3000", "null"] {
        let path = "/api/v1/workspaces/acme/models";
        let reply = send(&app, "OPTIONS", path, Some(origin)).await;
        assert_eq!(reply.status, StatusCode::NO_CONTENT);
        assert_eq!(reply.header("access-control-allow-origin"), origin);
    }
}
