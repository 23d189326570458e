//! People who can sign in at the consent page.

use axum::Json;
use axum::extract::State;
use runloom_ports::clock::rfc3339;
use runloom_ports::store::PersonRow;
use runloom_protocol::error::Issue;
use runloom_protocol::resource;
use runloom_service::oauth::PutUser;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checkable, Checked, Target};
use crate::route::Access::Admin;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let one = "/api/admin/v1/users/{id}";
    vec![
        Route::get("/api/admin/v1/users", Admin, list_users),
        Route::get(one, Admin, get_user),
        Route::put(one, Admin, put_user),
        Route::delete(one, Admin, delete_user),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PutUserBody {
    name: Option<String>,
    password: Option<String>,
    workspaces: Option<Vec<String>>,
}

impl Checkable for PutUser {
    const OPERATION: &'static str = "put_user";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        let body: PutUserBody = wire::read(body)?;
        Ok(Self {
            name: body.name,
            password: body.password,
            workspaces: body.workspaces,
        })
    }
}

#[derive(Serialize)]
struct UserList {
    users: Vec<UserView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: String,
    email: String,
    name: String,
    workspaces: Vec<String>,
    created_at: String,
}

impl UserView {
    fn of(row: PersonRow) -> Self {
        Self {
            id: row.id.to_string(),
            email: row.email,
            name: row.name,
            workspaces: row.workspaces.into_iter().map(|row| row.slug).collect(),
            created_at: rfc3339(row.created_at),
        }
    }
}

async fn list_users(State(app): State<App>) -> Answer<Json<UserList>> {
    let rows = app.service.oauth().list_users().await?;
    let users = rows.into_iter().map(UserView::of).collect();
    Ok(Json(UserList { users }))
}

async fn get_user(State(app): State<App>, target: Target) -> Answer<Json<UserView>> {
    let row = app.service.oauth().user(&target.id).await?;
    Ok(Json(UserView::of(row)))
}

async fn put_user(
    State(app): State<App>,
    target: Target,
    body: Checked<PutUser>,
) -> Answer<Json<UserView>> {
    let service = &app.service;
    let now = service.clock().now();
    let put = service.oauth().put_user(&target.id, body.request, now);
    Ok(Json(UserView::of(put.await?)))
}

async fn delete_user(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    app.service.oauth().delete_user(&target.id).await?;
    Ok(Json(resource::Ok::default()))
}
