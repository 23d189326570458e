//! The catalog of models.

use axum::Json;
use axum::extract::State;
use runloom_protocol::resource::ModelCatalog;
use runloom_protocol::scope::Scope::ModelsRead;
use runloom_service::rate::Bucket::Reads;

use super::workspace;
use crate::app::App;
use crate::guard::Authenticated;
use crate::route::Access::Workspace;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/models"),
        Workspace(Reads, ModelsRead),
        list_models,
    )]
}

async fn list_models(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Json<ModelCatalog> {
    Json(app.service.catalog().list(&caller.workspace.slug))
}
