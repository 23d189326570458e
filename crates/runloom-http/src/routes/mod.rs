//! One file per resource, each with its routes (one line each) and their handlers.

mod a2a;
mod admin;
mod ag_ui;
mod agents;
mod approvals;
mod dashboard;
mod feedback;
mod health;
mod mcp;
mod models;
mod oauth;
mod project;
mod runs;
mod sessions;
mod usage;

use axum::http::header::HOST;
use axum::http::{HeaderMap, Uri};

use crate::app::App;
use crate::route::Route;

/// Every route. A new resource is one file and one line here; the test of the OpenAPI document tells when its
/// description is missing.
pub(crate) fn all() -> Vec<Route> {
    [
        runs::routes(),
        approvals::routes(),
        feedback::routes(),
        sessions::routes(),
        ag_ui::routes(),
        models::routes(),
        usage::routes(),
        agents::routes(),
        a2a::routes(),
        mcp::routes(),
        oauth::routes(),
        admin::routes(),
        health::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The dashboard. Not part of the API, and served unless the operator disables it.
pub(crate) fn pages() -> Vec<Route> {
    dashboard::routes()
}

/// The routes of a worker.
pub(crate) fn probes() -> Vec<Route> {
    health::probes()
}

/// The routes of the listener for child processes of the project tool.
pub(crate) fn loopback() -> Vec<Route> {
    project::routes()
}

/// The routes of the metrics listener.
pub(crate) fn watched() -> Vec<Route> {
    health::watched()
}

/// A path inside a workspace.
fn workspace(path: &str) -> String {
    format!("/api/v1/workspaces/{{slug}}{path}")
}

/// The address at which clients reach this server: `public_url`, or the host of the request.
fn base_url(app: &App, uri: &Uri, headers: &HeaderMap) -> String {
    if let Some(url) = &app.settings.public_url {
        return url.clone();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let named = named.or_else(|| uri.authority().map(|authority| authority.as_str()));
    let host = named.filter(|host| !host.is_empty() && host.bytes().all(plain));
    format!("http://{}", host.unwrap_or("localhost"))
}

/// Default page size.
const PAGE_DEFAULT: u64 = 50;

/// Maximum page size.
const PAGE_MAX: u64 = 200;
