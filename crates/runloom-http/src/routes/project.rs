//! The loopback API of the project tool: what child processes of this process reach with their credential.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use runloom_service::project::ApiReply;
use serde_json::Value;

use crate::app::App;
use crate::error::project_status;
use crate::guard::credential;
use crate::operation::Operation;
use crate::route::Access::Open;
use crate::route::Route;

/// The service checks the credential, which is not one of the workspace API. Clients do not call these routes, so the
/// OpenAPI document leaves them out.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/api/project/v1/whoami",
            Open,
            whoami,
            Operation::undocumented(),
        ),
        Route::post(
            "/api/project/v1/{module}/{method}",
            Open,
            act,
            Operation::undocumented(),
        ),
    ]
}

async fn whoami(State(app): State<App>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    shown(app.service.project().whoami(credential(&headers)).await)
}

async fn act(
    State(app): State<App>,
    Path((module, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let project = app.service.project();
    let reply = project.act(credential(&headers), &module, &method, &body);
    shown(reply.await)
}

fn shown(reply: ApiReply) -> (StatusCode, Json<Value>) {
    (project_status(reply.status), Json(reply.body))
}
