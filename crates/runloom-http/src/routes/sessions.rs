//! Sessions: create, read, send messages, end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runloom_ports::store::SessionFilter;
use runloom_protocol::resource::{
    self, RunAccepted, SessionCreated, SessionEvents, SessionHistory, SessionList, SessionSnapshot,
    SessionStatus,
};
use runloom_protocol::scope::Scope::{SessionsRead, SessionsWrite};
use runloom_protocol::spec::{CreateMessage, CreateSession};
use runloom_service::error::Error;
use runloom_service::rate::Bucket::{Reads, RunStarts, Writes};
use runloom_service::{HistoryRequest, SessionEventsRequest};

use super::runs::{page, page_parameters};
use super::workspace;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, QueryPairs, Target};
use crate::guard::Authenticated;
use crate::operation::{Operation, Parameter, Shape, Tag};
use crate::route::Access::Workspace;
use crate::route::Route;

/// Largest `lastMessages`.
const LAST_MESSAGES_MAX: u64 = 500;

/// Default number of messages in one page of a history.
const HISTORY_DEFAULT: u64 = 100;

/// Largest number of messages in one page of a history.
const HISTORY_MAX: u64 = 500;

const TAG: Tag = Tag {
    name: "Sessions",
    about: "Conversations: each message starts a run that knows the messages before it.",
};

pub(super) fn routes() -> Vec<Route> {
    let session = |path: &str| workspace(&format!("/agent-sessions/{{id}}{path}"));
    vec![
        Route::post(
            workspace("/agent-sessions"),
            Workspace(Writes, SessionsWrite),
            create_session,
            Operation::new(TAG, "create_session", "Create a session")
                .body(Shape::json::<CreateSession>())
                .idempotent()
                .returns(
                    201,
                    "The session accepts messages.",
                    Shape::json::<SessionCreated>(),
                ),
        ),
        Route::get(
            workspace("/agent-sessions"),
            Workspace(Reads, SessionsRead),
            list_sessions,
            Operation::new(TAG, "list_sessions", "List sessions, newest first")
                .parameters([
                    Parameter::word(
                        "status",
                        &["active", "ended"],
                        "Only sessions with this status.",
                    ),
                    Parameter::metadata(),
                ])
                .parameters(page_parameters())
                .returns(200, "A page of sessions.", Shape::json::<SessionList>()),
        ),
        Route::get(
            session(""),
            Workspace(Reads, SessionsRead),
            get_session,
            on_session("get_session", "Read a session").returns(
                200,
                "The session with its messages.",
                Shape::json::<SessionSnapshot>(),
            ),
        ),
        Route::delete(
            session(""),
            Workspace(Writes, SessionsWrite),
            end_session,
            on_session("end_session", "End a session")
                .about("Cancels its runs. An ended session can be read.")
                .returns(200, "The session has ended.", Shape::json::<resource::Ok>()),
        ),
        Route::post(
            session("/messages"),
            Workspace(RunStarts, SessionsWrite),
            create_message,
            create_message_operation(),
        ),
        Route::get(
            session("/events"),
            Workspace(Reads, SessionsRead),
            list_session_events,
            list_events_operation(),
        ),
        Route::get(
            session("/history"),
            Workspace(Reads, SessionsRead),
            get_history,
            history_operation(),
        ),
    ]
}

fn history_operation() -> Operation {
    on_session("get_history", "Read the history of a session")
        .about("Every message of every run, however it ended, as AG-UI 1.0 writes messages.")
        .parameters([
            Parameter::integer("limit", (1, HISTORY_MAX), "Size of the page.")
                .default(HISTORY_DEFAULT),
            Parameter::text("before", "Only messages before the one with this id."),
        ])
        .returns(
            200,
            "A page of the history, oldest first.",
            Shape::json::<SessionHistory>(),
        )
}

fn create_message_operation() -> Operation {
    on_session("create_message", "Send a message")
        .about("Starts a run that answers the message.")
        .parameters([Parameter::switch(
            "dryRun",
            "`true`, which is only for `POST …/agent-runs`, fails with 400.",
        )])
        .body(Shape::json::<CreateMessage>())
        .idempotent()
        .returns(
            202,
            "The run is durable. It waits for the session's earlier runs.",
            Shape::json::<RunAccepted>(),
        )
}

fn list_events_operation() -> Operation {
    on_session("list_session_events", "List the messages of a session")
        .parameters([
            Parameter::switch("full", "All messages. Excludes the other parameters."),
            Parameter::integer(
                "lastMessages",
                (1, LAST_MESSAGES_MAX),
                "Only this many messages, the newest.",
            ),
            Parameter::integer(
                "beforeSeq",
                (1, u64::MAX),
                "Only messages before this position.",
            ),
        ])
        .returns(
            200,
            "A part of the conversation, oldest first.",
            Shape::json::<SessionEvents>(),
        )
}

fn on_session(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary).target("The id of the session, `ses_…`.")
}

async fn create_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    body: Checked<CreateSession>,
) -> Answer<(StatusCode, Json<SessionCreated>)> {
    let service = &app.service;
    let created = service
        .sessions()
        .create(&caller, body.request, body.idempotency)
        .await?;
    Ok((StatusCode::CREATED, Json(created)))
}

async fn get_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
) -> Answer<Json<SessionSnapshot>> {
    Ok(Json(
        app.service.sessions().snapshot(&caller, &target.id).await?,
    ))
}

async fn list_sessions(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
) -> Answer<Json<SessionList>> {
    let filter = SessionFilter {
        visible_to: None,
        status: query.word("status", SessionStatus::parse, "active, ended")?,
        metadata: query.metadata()?,
    };
    let page = page(&query)?;
    Ok(Json(
        app.service.sessions().list(&caller, filter, page).await?,
    ))
}

async fn create_message(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    query: QueryPairs,
    body: Checked<CreateMessage>,
) -> Answer<(StatusCode, Json<RunAccepted>)> {
    // A dry run must never start a real run.
    if query.flag("dryRun")? {
        let message = "is only for `POST …/agent-runs`; a message always starts a run";
        return Err(Error::invalid("dryRun", message).into());
    }
    let service = &app.service;
    let accepted = service
        .sessions()
        .send_message(&caller, &target.id, body.request, body.idempotency)
        .await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

async fn end_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
) -> Answer<Json<resource::Ok>> {
    app.service.sessions().end(&caller, &target.id).await?;
    Ok(Json(resource::Ok::default()))
}

async fn list_session_events(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    query: QueryPairs,
) -> Answer<Json<SessionEvents>> {
    let last = query.integer("lastMessages", (1, LAST_MESSAGES_MAX))?;
    let request = SessionEventsRequest {
        full: query.flag("full")?,
        last_messages: last.and_then(|last| usize::try_from(last).ok()),
        before_seq: query.integer("beforeSeq", (1, i64::MAX as u64))?,
    };
    if request.full && (request.last_messages.is_some() || request.before_seq.is_some()) {
        let message = "excludes `lastMessages` and `beforeSeq`";
        return Err(Error::invalid("full", message).into());
    }
    let events = app
        .service
        .sessions()
        .events(&caller, &target.id, request)
        .await?;
    Ok(Json(events))
}

async fn get_history(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    query: QueryPairs,
) -> Answer<Json<SessionHistory>> {
    let limit = query
        .integer("limit", (1, HISTORY_MAX))?
        .unwrap_or(HISTORY_DEFAULT);
    let request = HistoryRequest {
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        before: query.text("before")?,
    };
    let history = app
        .service
        .sessions()
        .history(&caller, &target.id, request)
        .await?;
    Ok(Json(history))
}
