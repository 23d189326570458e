//! The administrator's side: workspaces, keys, the documents that workspaces keep and what they remember, OAuth apps and people.

mod documents;
mod memories;
mod oauth_apps;
mod users;
mod wire;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_protocol::resource;
use runloom_service::tenancy::{CreateKey, PutWorkspace};

use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, Target};
use crate::route::Access::Admin;
use crate::route::Route;
use wire::{KeyCreated, KeyList, KeyView, WorkspaceList, WorkspaceShown, WorkspaceView};

pub(super) fn routes() -> Vec<Route> {
    let path = |path: &str| format!("/api/admin/v1/workspaces{path}");
    let mut routes = vec![
        Route::get(path(""), Admin, list_workspaces),
        Route::get(path("/{slug}"), Admin, get_workspace),
        Route::put(path("/{slug}"), Admin, put_workspace),
        Route::get(path("/{slug}/keys"), Admin, list_keys),
        Route::post(path("/{slug}/keys"), Admin, create_key),
        Route::delete(path("/{slug}/keys/{id}"), Admin, revoke_key),
    ];
    routes.extend(documents::routes());
    routes.extend(memories::routes());
    routes.extend(oauth_apps::routes());
    routes.extend(users::routes());
    routes
}

async fn list_workspaces(State(app): State<App>) -> Answer<Json<WorkspaceList>> {
    let rows = app.service.tenancy().list_workspaces().await?;
    let workspaces = rows.into_iter().map(WorkspaceView::of).collect();
    Ok(Json(WorkspaceList { workspaces }))
}

async fn get_workspace(State(app): State<App>, target: Target) -> Answer<Json<WorkspaceShown>> {
    let row = app.service.tenancy().workspace(&target.slug).await?;
    let catalog = app.service.catalog().list(&row.slug);
    Ok(Json(WorkspaceShown {
        workspace: WorkspaceView::of(row),
        default_model_id: catalog.default_model_id,
    }))
}

async fn put_workspace(
    State(app): State<App>,
    target: Target,
    body: Checked<PutWorkspace>,
) -> Answer<Json<WorkspaceView>> {
    let service = &app.service;
    let now = service.clock().now();
    let put = service
        .tenancy()
        .put_workspace(&target.slug, body.request, now);
    Ok(Json(WorkspaceView::of(put.await?)))
}

async fn list_keys(State(app): State<App>, target: Target) -> Answer<Json<KeyList>> {
    let rows = app.service.tenancy().list_keys(&target.slug).await?;
    let keys = rows.into_iter().map(KeyView::of).collect();
    Ok(Json(KeyList { keys }))
}

async fn create_key(
    State(app): State<App>,
    target: Target,
    body: Checked<CreateKey>,
) -> Answer<(StatusCode, Json<KeyCreated>)> {
    let service = &app.service;
    let now = service.clock().now();
    let made = service
        .tenancy()
        .create_key(&target.slug, body.request, now)
        .await?;
    let created = KeyCreated {
        id: made.id,
        key: made.key,
    };
    Ok((StatusCode::CREATED, Json(created)))
}

async fn revoke_key(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    let service = &app.service;
    let now = service.clock().now();
    service
        .tenancy()
        .revoke_key(&target.slug, &target.id, now)
        .await?;
    Ok(Json(resource::Ok::default()))
}
