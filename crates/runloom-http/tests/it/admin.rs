//! The admin API.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use runloom_http::Settings;
use runloom_ports::shutdown::Shutdown;
use serde_json::{Value, json};

use crate::app::{ADMIN, Reply, TestApp};
use crate::contract;

async fn call(app: &TestApp, method: &str, path: &str, body: Option<Value>) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/admin/v1{path}"))
        .header("authorization", format!("Bearer {ADMIN}"));
    let request = match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    app.send(request.unwrap()).await
}

#[tokio::test]
async fn admin_api_needs_the_token() {
    let app = TestApp::new().await;
    for header in [
        None,
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {}", app.key)),
    ] {
        let mut request = Request::builder().uri("/api/admin/v1/workspaces");
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let reply = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
        assert_eq!(reply.code(), "unauthorized");
        assert!(reply.header("www-authenticate").starts_with("Bearer"));
    }
}

#[tokio::test]
async fn admin_api_is_off_without_a_token() {
    let mut app = TestApp::new().await;
    let service = app.service.clone();
    let router = runloom_http::router(service, Settings::default(), Shutdown::default());
    app.router = contract::checked(router);
    let reply = call(&app, "GET", "/workspaces", None).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.code(), "forbidden");
    assert!(reply.body["hint"].is_string());
}

#[tokio::test]
async fn manages_workspaces_and_keys() {
    let app = TestApp::new().await;
    let put = call(
        &app,
        "PUT",
        "/workspaces/beta",
        Some(json!({"name": "Beta"})),
    )
    .await;
    assert_eq!(put.status, StatusCode::OK);
    assert_eq!(
        put.body,
        json!({"slug": "beta", "name": "Beta", "without": []})
    );
    let list = call(&app, "GET", "/workspaces", None).await;
    assert_eq!(list.body["workspaces"].as_array().unwrap().len(), 2);

    let body = json!({"name": "ci", "usage": "developer_api", "runsPerMinute": 7});
    let made = call(&app, "POST", "/workspaces/beta/keys", Some(body)).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let key = made.body["key"].as_str().unwrap().to_owned();

    let keys = call(&app, "GET", "/workspaces/beta/keys", None).await;
    assert!(!keys.body.to_string().contains(&key));
    assert_eq!(keys.body["keys"][0]["runsPerMinute"], 7);
    assert_eq!(keys.body["keys"][0]["revokedAt"], Value::Null);

    let models = |key: String| {
        let request = Request::builder()
            .uri("/api/v1/workspaces/beta/models")
            .header("x-api-key", key);
        app.send(request.body(Body::empty()).unwrap())
    };
    assert_eq!(models(key.clone()).await.status, StatusCode::OK);
    let path = format!("/workspaces/beta/keys/{key}");
    let revoked = call(&app, "DELETE", &path, None).await;
    assert_eq!(revoked.body, json!({"ok": true}));
    assert_eq!(models(key).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn explains_bad_requests() {
    let app = TestApp::new().await;
    for (path, body) in [
        ("/workspaces/Beta", json!({})),
        ("/workspaces/beta", json!({"without": ["coffee"]})),
        ("/workspaces/beta", json!({"nmae": "x"})),
    ] {
        let reply = call(&app, "PUT", path, Some(body)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(reply.code(), "invalid_request");
    }
    let reply = call(
        &app,
        "POST",
        "/workspaces/acme/keys",
        Some(json!({"usage": "all"})),
    )
    .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    for (method, path) in [
        ("GET", "/workspaces/nobody/keys"),
        ("DELETE", "/workspaces/acme/keys/key_nobody"),
    ] {
        let reply = call(&app, method, path, None).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.code(), "not_found");
    }
}
