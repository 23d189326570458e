//! OAuth apps of workspaces: registered, listed, given another secret, deleted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_ports::clock::rfc3339;
use runloom_ports::store::AppRow;
use runloom_protocol::error::Issue;
use runloom_protocol::resource;
use runloom_service::oauth::{CreateApp, CreatedApp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checkable, Checked, Target};
use crate::route::Access::Admin;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let all = "/api/admin/v1/workspaces/{slug}/oauth-apps";
    vec![
        Route::get(all, Admin, list_apps),
        Route::post(all, Admin, create_app),
        Route::delete(format!("{all}/{{id}}"), Admin, delete_app),
        Route::post(format!("{all}/{{id}}/secret"), Admin, renew_secret),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateAppBody {
    name: Option<String>,
    visibility: Option<Visibility>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    scopes: Vec<String>,
    #[serde(default)]
    client_credentials: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Visibility {
    Private,
    Public,
}

impl Checkable for CreateApp {
    const OPERATION: &'static str = "create_oauth_app";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        let body: CreateAppBody = wire::read(body)?;
        Ok(Self {
            name: body.name.unwrap_or_default(),
            public: body.visibility == Some(Visibility::Public),
            redirect_uris: body.redirect_uris,
            scopes: body.scopes,
            client_credentials: body.client_credentials,
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppList {
    oauth_apps: Vec<AppView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppView {
    client_id: String,
    name: String,
    visibility: Visibility,
    redirect_uris: Vec<String>,
    scopes: Vec<String>,
    client_credentials: bool,
    created_at: String,
}

impl AppView {
    fn of(row: AppRow) -> Self {
        Self {
            client_id: row.client_id,
            name: row.name,
            visibility: if row.public {
                Visibility::Public
            } else {
                Visibility::Private
            },
            redirect_uris: row.redirect_uris,
            scopes: row.scopes.iter().map(|scope| scope.to_string()).collect(),
            client_credentials: row.client_credentials,
            created_at: rfc3339(row.created_at),
        }
    }
}

/// The only answer that shows a secret; no `Debug`, so that it cannot end up in a log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretShown {
    client_id: String,
    client_secret: String,
}

impl SecretShown {
    fn of(made: CreatedApp) -> Self {
        Self {
            client_id: made.client_id,
            client_secret: made.client_secret,
        }
    }
}

async fn list_apps(State(app): State<App>, target: Target) -> Answer<Json<AppList>> {
    let rows = app.service.oauth().list_apps(&target.slug).await?;
    let oauth_apps = rows.into_iter().map(AppView::of).collect();
    Ok(Json(AppList { oauth_apps }))
}

async fn create_app(
    State(app): State<App>,
    target: Target,
    body: Checked<CreateApp>,
) -> Answer<(StatusCode, Json<SecretShown>)> {
    let service = &app.service;
    let now = service.clock().now();
    let made = service
        .oauth()
        .create_app(&target.slug, body.request, now)
        .await?;
    Ok((StatusCode::CREATED, Json(SecretShown::of(made))))
}

async fn renew_secret(State(app): State<App>, target: Target) -> Answer<Json<SecretShown>> {
    let service = &app.service;
    let now = service.clock().now();
    let made = service
        .oauth()
        .renew_secret(&target.slug, &target.id, now)
        .await?;
    Ok(Json(SecretShown::of(made)))
}

async fn delete_app(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    let oauth = app.service.oauth();
    oauth.delete_app(&target.slug, &target.id).await?;
    Ok(Json(resource::Ok::default()))
}
