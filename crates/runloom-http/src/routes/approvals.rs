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
use crate::operation::{Operation, Parameter, Shape, Tag};
use crate::route::Access::Published;
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Approvals",
    about: "Tool calls that wait for the decision of a user.",
};

pub(super) fn routes() -> Vec<Route> {
    let read = Published(EntryPoint::Approvals, Reads, &[ApprovalsRead]);
    let write = Published(EntryPoint::Approvals, Lifecycle, &[ApprovalsWrite]);
    vec![
        Route::post(
            workspace("/agent-runs/{id}/approvals"),
            write,
            decide_approval,
            Operation::new(TAG, "decide_approval", "Decide an approval of a run")
                .about("Repeating the same decision returns the same receipt; another decision fails with 409.")
                .target("The id of the run, or of a run above it, `run_…`.")
                .body(Shape::json::<DecideApproval>())
                .idempotent()
                .returns(200, "The decision is durable.", Shape::json::<ApprovalReceipt>()),
        ),
        Route::get(
            workspace("/approvals"),
            read,
            list_approvals,
            Operation::new(TAG, "list_approvals", "List approvals, newest first")
                .parameters([
                    Parameter::word("status", &statuses(), "Only approvals with this status."),
                    Parameter::text("runId", "Only approvals of this run."),
                    Parameter::text("rootRunId", "Only approvals of this run and the runs below it."),
                ])
                .parameters(runs::page_parameters())
                .returns(200, "A page of approvals.", Shape::json::<ApprovalList>()),
        ),
        Route::get(
            workspace("/approvals/{id}"),
            read,
            get_approval,
            Operation::new(TAG, "get_approval", "Read an approval")
                .target("The id of the approval, `apr_…`.")
                .returns(200, "The approval.", Shape::json::<Approval>()),
        ),
    ]
}

fn statuses() -> Vec<&'static str> {
    let statuses = ApprovalStatus::ALL.iter();
    statuses.map(|status| status.as_str()).collect()
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
    let run = |key| query.word(key, RunId::parse, "the ids of runs, `run_…`");
    let filter = ApprovalFilter {
        status: query.word("status", ApprovalStatus::parse, &statuses().join(", "))?,
        run: run("runId")?,
        root: run("rootRunId")?,
        visible_to: None,
    };
    let page = runs::page(&query)?;
    Ok(Json(
        app.service.approvals().list(&caller, filter, page).await?,
    ))
}
