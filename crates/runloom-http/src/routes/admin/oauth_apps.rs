//! OAuth apps of workspaces: registered, listed, given another secret, deleted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_protocol::admin::{CreateOauthApp, OauthAppCreated, OauthAppList};
use runloom_protocol::resource;

use super::{TAG, wire};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, Target};
use crate::operation::{Operation, Shape};
use crate::route::Access::Admin;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let all = "/api/admin/v1/workspaces/{slug}/oauth-apps";
    vec![
        Route::get(
            all,
            Admin,
            list_apps,
            Operation::new(TAG, "list_oauth_apps", "List the OAuth apps of a workspace").returns(
                200,
                "The apps, oldest first.",
                Shape::json::<OauthAppList>(),
            ),
        ),
        Route::post(
            all,
            Admin,
            create_app,
            Operation::new(TAG, "create_oauth_app", "Register an OAuth app")
                .body(Shape::json::<CreateOauthApp>())
                .returns(
                    201,
                    "The credentials. No later response contains the secret.",
                    Shape::json::<OauthAppCreated>(),
                ),
        ),
        Route::delete(
            format!("{all}/{{id}}"),
            Admin,
            delete_app,
            on_app("delete_oauth_app", "Delete an OAuth app")
                .about("Deletes its grants and tokens, too.")
                .returns(200, "The app is deleted.", Shape::json::<resource::Ok>()),
        ),
        Route::post(
            format!("{all}/{{id}}/secret"),
            Admin,
            renew_secret,
            on_app("renew_oauth_secret", "Replace the secret of an OAuth app")
                .about("The old secret is refused from now on. Tokens stay valid.")
                .returns(200, "The new secret.", Shape::json::<OauthAppCreated>()),
        ),
    ]
}

fn on_app(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary).target("The client id of the app, `mantyx_oa_…`.")
}

async fn list_apps(State(app): State<App>, target: Target) -> Answer<Json<OauthAppList>> {
    let rows = app.service.oauth().list_apps(&target.slug).await?;
    let oauth_apps = rows.into_iter().map(wire::oauth_app).collect();
    Ok(Json(OauthAppList { oauth_apps }))
}

async fn create_app(
    State(app): State<App>,
    target: Target,
    body: Checked<CreateOauthApp>,
) -> Answer<(StatusCode, Json<OauthAppCreated>)> {
    let service = &app.service;
    let now = service.clock().now();
    let made = service
        .oauth()
        .create_app(&target.slug, body.request, now)
        .await?;
    Ok((StatusCode::CREATED, Json(made)))
}

async fn renew_secret(State(app): State<App>, target: Target) -> Answer<Json<OauthAppCreated>> {
    let service = &app.service;
    let now = service.clock().now();
    let made = service
        .oauth()
        .renew_secret(&target.slug, &target.id, now)
        .await?;
    Ok(Json(made))
}

async fn delete_app(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    let oauth = app.service.oauth();
    oauth.delete_app(&target.slug, &target.id).await?;
    Ok(Json(resource::Ok::default()))
}
