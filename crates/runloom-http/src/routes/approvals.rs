//! Approvals: the inbox, and a person's decision about a tool call.

use axum::Json;
use axum::extract::State;
use runloom_ports::store::ApprovalFilter;
use runloom_protocol::approval::{ApprovalStatus, DecideApproval};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::{Approval, ApprovalList, ApprovalReceipt};
use runloom_protocol::scope::Scope::{ApprovalsRead, ApprovalsWrite};
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket::{Lifecycle, Reads};

use super::{runs, workspace};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, QueryPairs, Target};
use crate::guard::Authenticated;
use crate::route::Access::Published;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let read = Published(EntryPoint::Approvals, Reads, &[ApprovalsRead]);
    let write = Published(EntryPoint::Approvals, Lifecycle, &[ApprovalsWrite]);
    vec![
        Route::post(
            workspace("/agent-runs/{id}/approvals"),
            write,
            decide_approval,
        ),
        Route::get(workspace("/approvals"), read, list_approvals),
        Route::get(workspace("/approvals/{id}"), read, get_approval),
    ]
}

async fn decide_approval(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    body: Checked<DecideApproval>,
) -> Answer<Json<ApprovalReceipt>> {
    let decided =
        app.service
            .approvals()
            .decide(&caller, &target.id, body.request, body.idempotency);
    Ok(Json(decided.await?))
}

async fn get_approval(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
) -> Answer<Json<Approval>> {
    Ok(Json(
        app.service.approvals().get(&caller, &target.id).await?,
    ))
}

async fn list_approvals(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
) -> Answer<Json<ApprovalList>> {
    let statuses: Vec<&str> = ApprovalStatus::ALL
        .iter()
        .map(|status| status.as_str())
        .collect();
    let run = |key| query.word(key, RunId::parse, "the ids of runs, `run_…`");
    let filter = ApprovalFilter {
        status: query.word("status", ApprovalStatus::parse, &statuses.join(", "))?,
        run: run("runId")?,
        root: run("rootRunId")?,
    };
    let page = runs::page(&query)?;
    Ok(Json(
        app.service.approvals().list(&caller, filter, page).await?,
    ))
}
