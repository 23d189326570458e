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
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::Workspace;
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Agents",
    about: "Stored agents, which runs use by `agentId`.",
};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/agents"),
        Workspace(Reads, AgentsRead),
        list_agents,
        Operation::new(TAG, "list_agents", "List stored agents").returns(
            200,
            "The agents that the credential can run.",
            Shape::json::<AgentList>(),
        ),
    )]
}

async fn list_agents(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<AgentList>> {
    Ok(Json(app.service.registry().agents(&caller).await?))
}
