//! Probes, server information and metrics.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use runloom_engine::metrics;
use runloom_service::error::Error;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::Answer;
use crate::openapi;
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::{self, Admin, Open};
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Server",
    about: "Probes, metrics and documents.",
};

pub(super) fn routes() -> Vec<Route> {
    let mut routes = probes();
    routes.push(Route::get(
        "/openapi.json",
        Open,
        get_openapi,
        Operation::new(TAG, "get_openapi", "Read this document").returns(
            200,
            "OpenAPI 3.1.",
            Shape::named_json("OpenApiDocument", any_document),
        ),
    ));
    routes
}

/// Routes of a process without the API.
pub(super) fn probes() -> Vec<Route> {
    let info = Operation::new(
        TAG,
        "get_info",
        "Read the version and features of the server",
    )
    .returns(
        200,
        "Name, version, protocol and features.",
        Shape::json::<Info>(),
    );
    let mut routes = vec![Route::get("/info", Open, get_info, info)];
    routes.extend(states());
    routes.push(metrics_for(Admin));
    routes
}

/// Routes of the metrics listener, without a token.
pub(super) fn watched() -> Vec<Route> {
    let mut routes = states();
    routes.push(metrics_for(Open));
    routes
}

fn states() -> Vec<Route> {
    let state = |id: &str, summary: &str| {
        Operation::new(TAG, id, summary).returns(200, "Yes.", Shape::json::<Status>())
    };
    let ready = state("get_ready", "Check whether the server accepts requests")
        .about("503 while the server stops, or when its store does not respond.");
    vec![
        Route::get(
            "/health",
            Open,
            get_health,
            state("get_health", "Check whether the server is up"),
        ),
        Route::get(
            "/live",
            Open,
            get_live,
            state("get_live", "Check whether the process responds"),
        ),
        Route::get("/ready", Open, get_ready, ready),
    ]
}

fn metrics_for(access: Access) -> Route {
    let operation = Operation::new(TAG, "get_metrics", "Read the metrics of this process")
        .about("Needs the admin token here; the listener `server.metrics_listen` serves it without one.")
        .returns(200, "Prometheus's text format, version 0.0.4.", Shape::text("text/plain"));
    Route::get("/metrics", access, get_metrics, operation)
}

fn any_document() -> Value {
    json!({"type": "object", "description": "An OpenAPI document.", "additionalProperties": true})
}

/// The state of the server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ServerStatus"))]
struct Status {
    /// `ok`, `live` or `ready`.
    status: &'static str,
}

/// The server's version and features.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ServerInfo"))]
struct Info {
    /// Always `runloom`.
    name: &'static str,
    /// The version of the server.
    version: &'static str,
    /// The supported version of the protocol.
    protocol: &'static str,
    /// The features of the server.
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
