//! Feedback of users about runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_ports::store::FeedbackFilter;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::{FeedbackList, FeedbackReceipt};
use runloom_protocol::scope::Scope::{FeedbackRead, FeedbackWrite};
use runloom_protocol::spec::{SubmitFeedback, Verdict};
use runloom_service::rate::Bucket::{Lifecycle, Reads};

use super::{runs, workspace};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, QueryPairs, Target};
use crate::guard::Authenticated;
use crate::route::Access::Workspace;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            workspace("/agent-runs/{id}/feedback"),
            Workspace(Lifecycle, FeedbackWrite),
            submit_feedback,
        ),
        Route::get(
            workspace("/reply-feedback"),
            Workspace(Reads, FeedbackRead),
            list_feedback,
        ),
    ]
}

/// Sending the same feedback twice changes nothing, so an idempotency key is not needed.
async fn submit_feedback(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    body: Checked<SubmitFeedback>,
) -> Answer<(StatusCode, Json<FeedbackReceipt>)> {
    let kept = app
        .service
        .feedback()
        .submit(&caller, &target.id, body.request);
    let (receipt, is_first) = kept.await?;
    let status = if is_first {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(receipt)))
}

async fn list_feedback(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
) -> Answer<Json<FeedbackList>> {
    let filter = FeedbackFilter {
        verdict: query.word("verdict", Verdict::parse, "UP, DOWN")?,
        run: query.word("agentRunId", RunId::parse, "the ids of runs, `run_…`")?,
        session: query.word(
            "sessionId",
            SessionId::parse,
            "the ids of sessions, `ses_…`",
        )?,
        agent_id: query.text("agentId")?,
    };
    let page = runs::page(&query)?;
    Ok(Json(
        app.service.feedback().list(&caller, filter, page).await?,
    ))
}
