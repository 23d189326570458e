//! The administrator's side: workspaces, keys, the documents that workspaces keep and what they remember, OAuth apps
//! and people.

mod documents;
mod memories;
mod oauth_apps;
mod project;
mod users;
mod wire;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_protocol::admin::{
    ApiKeyList, CreateKey, KeyCreated, PutWorkspace, Workspace, WorkspaceDetails, WorkspaceList,
};
use runloom_protocol::resource;

use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, Target};
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::Admin;
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Admin",
    about: "Workspaces and everything in them; needs the admin token.",
};

pub(super) fn routes() -> Vec<Route> {
    let path = |path: &str| format!("/api/admin/v1/workspaces{path}");
    let mut routes = vec![
        Route::get(
            path(""),
            Admin,
            list_workspaces,
            Operation::new(TAG, "list_workspaces", "List workspaces").returns(
                200,
                "All workspaces.",
                Shape::json::<WorkspaceList>(),
            ),
        ),
        Route::get(
            path("/{slug}"),
            Admin,
            get_workspace,
            Operation::new(TAG, "get_workspace", "Read a workspace").returns(
                200,
                "The workspace and its default model.",
                Shape::json::<WorkspaceDetails>(),
            ),
        ),
        Route::put(
            path("/{slug}"),
            Admin,
            put_workspace,
            Operation::new(TAG, "put_workspace", "Create or change a workspace")
                .body(Shape::json::<PutWorkspace>())
                .returns(
                    200,
                    "The workspace after the change.",
                    Shape::json::<Workspace>(),
                ),
        ),
        Route::get(
            path("/{slug}/keys"),
            Admin,
            list_keys,
            Operation::new(TAG, "list_keys", "List the API keys of a workspace").returns(
                200,
                "The keys, oldest first.",
                Shape::json::<ApiKeyList>(),
            ),
        ),
        Route::post(
            path("/{slug}/keys"),
            Admin,
            create_key,
            Operation::new(TAG, "create_key", "Create an API key")
                .body(Shape::json::<CreateKey>())
                .returns(
                    201,
                    "The key. No later response contains it.",
                    Shape::json::<KeyCreated>(),
                ),
        ),
        Route::delete(
            path("/{slug}/keys/{id}"),
            Admin,
            revoke_key,
            Operation::new(TAG, "revoke_key", "Revoke an API key")
                .target("The id of the key, or the key itself.")
                .returns(200, "The key is revoked.", Shape::json::<resource::Ok>()),
        ),
    ];
    routes.extend(documents::routes());
    routes.extend(memories::routes());
    routes.extend(project::routes());
    routes.extend(oauth_apps::routes());
    routes.extend(users::routes());
    routes
}

async fn list_workspaces(State(app): State<App>) -> Answer<Json<WorkspaceList>> {
    let rows = app.service.tenancy().list_workspaces().await?;
    let workspaces = rows.into_iter().map(wire::workspace).collect();
    Ok(Json(WorkspaceList { workspaces }))
}

async fn get_workspace(State(app): State<App>, target: Target) -> Answer<Json<WorkspaceDetails>> {
    let row = app.service.tenancy().workspace(&target.slug).await?;
    let catalog = app.service.catalog().list(&row.slug);
    Ok(Json(WorkspaceDetails {
        workspace: wire::workspace(row),
        default_model_id: catalog.default_model_id,
    }))
}

async fn put_workspace(
    State(app): State<App>,
    target: Target,
    body: Checked<PutWorkspace>,
) -> Answer<Json<Workspace>> {
    let service = &app.service;
    let now = service.clock().now();
    let put = service
        .tenancy()
        .put_workspace(&target.slug, body.request, now);
    Ok(Json(wire::workspace(put.await?)))
}

async fn list_keys(State(app): State<App>, target: Target) -> Answer<Json<ApiKeyList>> {
    let rows = app.service.tenancy().list_keys(&target.slug).await?;
    let keys = rows.into_iter().map(wire::api_key).collect();
    Ok(Json(ApiKeyList { keys }))
}

async fn create_key(
    State(app): State<App>,
    target: Target,
    body: Checked<CreateKey>,
) -> Answer<(StatusCode, Json<KeyCreated>)> {
    let service = &app.service;
    let now = service.clock().now();
    let created = service
        .tenancy()
        .create_key(&target.slug, body.request, now)
        .await?;
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
