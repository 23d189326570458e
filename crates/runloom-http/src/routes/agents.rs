//! Persisted agents. There are none yet: the list is empty.

use axum::Json;
use runloom_core::service::rate::Bucket::Reads;
use serde::Serialize;
use serde_json::Value;

use super::workspace;
use crate::guard::Signed;
use crate::router::Access::Workspace;
use crate::router::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/agents"),
        Workspace(Reads),
        list_agents,
    )]
}

#[derive(Debug, Default, Serialize)]
struct AgentList {
    agents: Vec<Value>,
}

async fn list_agents(_caller: Signed) -> Json<AgentList> {
    Json(AgentList::default())
}
