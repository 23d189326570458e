//! Users who can sign in at the consent page.

use axum::Json;
use axum::extract::State;
use runloom_protocol::admin::{PutUser, User, UserList};
use runloom_protocol::resource;

use super::{TAG, wire};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, Target};
use crate::operation::{Operation, Shape};
use crate::route::Access::Admin;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let one = "/api/admin/v1/users/{id}";
    vec![
        Route::get(
            "/api/admin/v1/users",
            Admin,
            list_users,
            Operation::new(TAG, "list_users", "List users").returns(
                200,
                "All users, by email address.",
                Shape::json::<UserList>(),
            ),
        ),
        Route::get(
            one,
            Admin,
            get_user,
            on_user("get_user", "Read a user").returns(200, "The user.", Shape::json::<User>()),
        ),
        Route::put(
            one,
            Admin,
            put_user,
            on_user("put_user", "Create or change a user")
                .about("A new user is named by the email address.")
                .body(Shape::json::<PutUser>())
                .returns(200, "The user after the change.", Shape::json::<User>()),
        ),
        Route::delete(
            one,
            Admin,
            delete_user,
            on_user("delete_user", "Delete a user")
                .about("Deletes the user's grants, too.")
                .returns(200, "The user is deleted.", Shape::json::<resource::Ok>()),
        ),
    ]
}

fn on_user(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary).target("The email address or the id of the user.")
}

async fn list_users(State(app): State<App>) -> Answer<Json<UserList>> {
    let rows = app.service.oauth().list_users().await?;
    let users = rows.into_iter().map(wire::user).collect();
    Ok(Json(UserList { users }))
}

async fn get_user(State(app): State<App>, target: Target) -> Answer<Json<User>> {
    let row = app.service.oauth().user(&target.id).await?;
    Ok(Json(wire::user(row)))
}

async fn put_user(
    State(app): State<App>,
    target: Target,
    body: Checked<PutUser>,
) -> Answer<Json<User>> {
    let service = &app.service;
    let now = service.clock().now();
    let put = service.oauth().put_user(&target.id, body.request, now);
    Ok(Json(wire::user(put.await?)))
}

async fn delete_user(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    app.service.oauth().delete_user(&target.id).await?;
    Ok(Json(resource::Ok::default()))
}
