//! Stored agents for API clients.

use axum::Json;
use axum::extract::State;
use runloom_protocol::resource::AgentList;
use runloom_protocol::scope::Scope::AgentsRead;
use runloom_service::rate::Bucket::Reads;

use super::workspace;
use crate::app::App;
use crate::error::Answer;
use crate::guard::Authenticated;
use crate::route::Access::Workspace;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/agents"),
        Workspace(Reads, AgentsRead),
        list_agents,
    )]
}

async fn list_agents(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<AgentList>> {
    Ok(Json(app.service.registry().agents(&caller).await?))
}
