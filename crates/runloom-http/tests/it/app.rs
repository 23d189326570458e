//! A server without an engine, and a client that calls its router.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use runloom_http::{AdminToken, Settings};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::Millis;
use runloom_service::Services;
use runloom_service::rate::RateLimits;
use runloom_service::tenancy::{CreateKey, PutWorkspace};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::contract;

pub(crate) const ADMIN: &str = "the-admin-token-of-tests";

/// A running router with one workspace and one key.
pub(crate) struct TestApp {
    pub(crate) router: Router,
    pub(crate) service: Arc<Services>,
    pub(crate) key: String,
    pub(crate) shutdown: Shutdown,
    directory: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .unwrap_or_else(|| panic!("no header {name}: {self:?}"))
            .to_str()
            .unwrap()
    }

    /// Checks what every refusal has, and returns its code.
    pub(crate) fn code(&self) -> &str {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        for field in ["error", "code", "message"] {
            let text = self.body[field].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no {field}: {self:?}");
        }
        self.body["code"].as_str().unwrap()
    }
}

impl TestApp {
    pub(crate) async fn new() -> Self {
        Self::with(RateLimits::default(), Settings::default()).await
    }

    pub(crate) async fn with(limits: RateLimits, settings: Settings) -> Self {
        let (service, directory) = crate::engine::service(limits).await;
        let service = Arc::new(service);
        let tenancy = service.tenancy();
        let put = PutWorkspace::default();
        tenancy.put_workspace("acme", put, Millis(0)).await.unwrap();
        let key = tenancy
            .create_key("acme", CreateKey::default(), Millis(0))
            .await;
        let settings = Settings {
            admin_token: Some(AdminToken::new(ADMIN)),
            ..settings
        };
        let shutdown = Shutdown::default();
        Self {
            router: contract::checked(runloom_http::router(
                service.clone(),
                settings,
                shutdown.clone(),
            )),
            service,
            key: key.unwrap().key,
            shutdown,
            directory,
        }
    }

    /// Where the store's files are.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 1 << 20).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::String(text)),
        }
    }

    /// A request of the workspace with its key; the path is inside the workspace.
    pub(crate) fn request(&self, method: &str, path: &str) -> axum::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("/api/v1/workspaces/acme{path}"))
            .header("authorization", format!("Bearer {}", self.key))
    }

    /// `GET` with the key.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        let request = self.request("GET", path).body(Body::empty()).unwrap();
        self.send(request).await
    }

    /// `POST` of JSON with the key.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Reply {
        let request = self
            .request("POST", path)
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        self.send(request).await
    }
}
