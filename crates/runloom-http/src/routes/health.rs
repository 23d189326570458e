//! Probes, server information and metrics.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use runloom_engine::metrics;
use runloom_service::error::Error;
use serde::Serialize;

use crate::app::App;
use crate::error::Answer;
use crate::openapi;
use crate::route::Access::{Admin, Open};
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let mut routes = probes();
    routes.push(Route::get("/openapi.json", Open, get_openapi));
    routes
}

/// Routes of a process without the API.
pub(super) fn probes() -> Vec<Route> {
    vec![
        Route::get("/health", Open, get_health),
        Route::get("/live", Open, get_live),
        Route::get("/ready", Open, get_ready),
        Route::get("/info", Open, get_info),
        Route::get("/metrics", Admin, get_metrics),
    ]
}

/// Routes of the metrics listener, without a token.
pub(super) fn watched() -> Vec<Route> {
    vec![
        Route::get("/health", Open, get_health),
        Route::get("/live", Open, get_live),
        Route::get("/ready", Open, get_ready),
        Route::get("/metrics", Open, get_metrics),
    ]
}

#[derive(Debug, Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Info {
    name: &'static str,
    version: &'static str,
    /// The supported version of the protocol.
    protocol: &'static str,
    features: &'static [&'static str],
}

async fn get_health() -> Json<Status> {
    Json(Status { status: "ok" })
}

/// Liveness: the process responds. Nothing else is checked, so that a slow database does not restart the process.
async fn get_live() -> Json<Status> {
    Json(Status { status: "live" })
}

/// Readiness: the store responds and the server is not stopping.
async fn get_ready(State(app): State<App>) -> Answer<Json<Status>> {
    if app.shutdown.is_draining() || app.shutdown.has_ended_streams() {
        let error = Error::Unavailable {
            message: "The server is stopping.".to_owned(),
            retry_after: Duration::from_secs(1),
        };
        return Err(error.into());
    }
    app.service.health().ready().await?;
    Ok(Json(Status { status: "ready" }))
}

async fn get_info() -> Json<Info> {
    Json(Info {
        name: "runloom",
        version: env!("CARGO_PKG_VERSION"),
        protocol: "0.11",
        features: &[
            "runs",
            "sessions",
            "models",
            "run-events",
            "idempotency",
            "agents",
            "plugins",
            "usage",
            "oauth",
            "dry-run",
            "attachments",
            "a2a",
            "mcp",
        ],
    })
}

/// Metrics in the Prometheus text format.
async fn get_metrics(State(app): State<App>) -> Response {
    let text = app.service.health().metrics().await;
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn get_openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi::DOCUMENT).into_response()
}
