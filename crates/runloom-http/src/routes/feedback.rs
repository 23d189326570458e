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

use super::runs::{self, TAG};
use super::workspace;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, QueryPairs, Target};
use crate::guard::Authenticated;
use crate::operation::{Operation, Parameter, Shape};
use crate::route::Access::Workspace;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            workspace("/agent-runs/{id}/feedback"),
            Workspace(Lifecycle, FeedbackWrite),
            submit_feedback,
            Operation::new(TAG, "submit_feedback", "Give feedback on a run")
                .about("A run has one feedback. A later feedback replaces it and keeps its id.")
                .target("The id of the run, `run_…`.")
                .body(Shape::json::<SubmitFeedback>())
                .returns(
                    201,
                    "The first feedback on the run.",
                    Shape::json::<FeedbackReceipt>(),
                )
                .returns(
                    200,
                    "The feedback was replaced.",
                    Shape::json::<FeedbackReceipt>(),
                ),
        ),
        Route::get(
            workspace("/reply-feedback"),
            Workspace(Reads, FeedbackRead),
            list_feedback,
            Operation::new(TAG, "list_feedback", "List feedback, newest first")
                .parameters([
                    Parameter::word(
                        "verdict",
                        &["UP", "DOWN"],
                        "Only feedback with this verdict.",
                    ),
                    Parameter::text("agentRunId", "Only feedback on this run."),
                    Parameter::text("sessionId", "Only feedback on runs of this session."),
                    Parameter::text("agentId", "Only feedback on runs of this agent."),
                ])
                .parameters(runs::page_parameters())
                .returns(200, "A page of feedback.", Shape::json::<FeedbackList>()),
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
        visible_to: None,
    };
    let page = runs::page(&query)?;
    Ok(Json(
        app.service.feedback().list(&caller, filter, page).await?,
    ))
}
