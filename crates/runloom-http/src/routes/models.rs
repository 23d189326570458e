//! The catalog of models.

use axum::Json;
use axum::extract::State;
use runloom_protocol::resource::ModelCatalog;
use runloom_protocol::scope::Scope::ModelsRead;
use runloom_service::rate::Bucket::Reads;

use super::workspace;
use crate::app::App;
use crate::guard::Authenticated;
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::Workspace;
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Models",
    about: "The models that a workspace can use.",
};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/models"),
        Workspace(Reads, ModelsRead),
        list_models,
        Operation::new(TAG, "list_models", "List the models of the workspace").returns(
            200,
            "The models, and the default.",
            Shape::json::<ModelCatalog>(),
        ),
    )]
}

async fn list_models(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Json<ModelCatalog> {
    Json(app.service.catalog().list(&caller.workspace.slug))
}
