//! Runs: start, read, stream, post tool results, cancel.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use runloom_ports::store::{RunFilter, TreeFilter};
use runloom_protocol::event::Sequenced;
use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::resource::{
    self, DryRun, EventList, RunAccepted, RunList, RunSnapshot, RunStatus,
};
use runloom_protocol::scope::Scope::{RunsRead, RunsWrite};
use runloom_protocol::spec::{CreateRun, SubmitToolResult};
use runloom_service::error::Error;
use runloom_service::rate::Bucket::{Lifecycle, Reads, RunStarts};
use runloom_service::{EventPage, LogPosition, PageRequest};

use super::{PAGE_DEFAULT, PAGE_MAX, workspace};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checked, QueryPairs, Target, digits};
use crate::guard::Authenticated;
use crate::operation::{Operation, Parameter, Shape, Tag};
use crate::route::Access::Workspace;
use crate::route::Route;
use crate::sse::{self, Cursor, CursorSource};

/// Default number of events of a response.
const EVENTS_DEFAULT: u64 = 200;

/// Maximum number of events of a response.
const EVENTS_MAX: u64 = 1000;

/// Largest number of entries that a page skips.
const OFFSET_MAX: u64 = 1_000_000;

pub(super) const TAG: Tag = Tag {
    name: "Runs",
    about: "One execution of a spec each: start, follow, execute its client tools, cancel.",
};

pub(super) fn routes() -> Vec<Route> {
    let run = |path: &str| workspace(&format!("/agent-runs/{{id}}{path}"));
    vec![
        Route::post(
            workspace("/agent-runs"),
            Workspace(RunStarts, RunsWrite),
            create_run,
            Operation::new(TAG, "create_run", "Start a run")
                .body(Shape::json::<CreateRun>())
                .idempotent()
                .parameters([Parameter::switch(
                    "dryRun",
                    "Resolve model, tools and budgets, and return what the run would send and could cost. No run is \
                     created and no model is called.",
                )])
                .returns(202, "The run is durable and will be executed.", Shape::json::<RunAccepted>())
                .returns(200, "The result of a dry run.", Shape::json::<DryRun>()),
        ),
        Route::get(
            workspace("/agent-runs"),
            Workspace(Reads, RunsRead),
            list_runs,
            list_runs_operation(),
        ),
        Route::get(
            run(""),
            Workspace(Reads, RunsRead),
            get_run,
            on_run("get_run", "Read a run").returns(200, "The run.", Shape::json::<RunSnapshot>()),
        ),
        Route::get(
            run("/stream"),
            Workspace(Reads, RunsRead),
            stream_run,
            stream_run_operation(),
        ),
        Route::get(
            run("/events"),
            Workspace(Reads, RunsRead),
            list_run_events,
            on_run("list_run_events", "List the events of a run")
                .parameters([
                    Parameter::integer("after", (0, u64::MAX), "Continue after this event.").default(0),
                    Parameter::integer("limit", (1, EVENTS_MAX), "The largest number of events.")
                        .default(EVENTS_DEFAULT),
                ])
                .returns(200, "The events after `after`, oldest first.", Shape::json::<EventList>()),
        ),
        Route::post(
            run("/tool-results"),
            Workspace(Lifecycle, RunsWrite),
            submit_tool_result,
            on_run("submit_tool_result", "Submit the result of a client tool")
                .body(Shape::json::<SubmitToolResult>())
                .idempotent()
                .returns(200, "The run has the result.", Shape::json::<resource::Ok>()),
        ),
        Route::post(
            run("/cancel"),
            Workspace(Lifecycle, RunsWrite),
            cancel_run,
            on_run("cancel_run", "Cancel a run")
                .about("Takes no body. Repeating it, also after the end of the run, changes nothing.")
                .returns(200, "The run will end with `cancelled`, or has ended.", Shape::json::<resource::Ok>()),
        ),
    ]
}

fn list_runs_operation() -> Operation {
    Operation::new(TAG, "list_runs", "List runs, newest first")
        .parameters([
            Parameter::word(
                "status",
                &RunStatus::ALL.map(RunStatus::as_str),
                "Only runs with this status.",
            ),
            Parameter::text("modelId", "Only runs with this model, by catalog id."),
            Parameter::text("agentId", "Only runs of this agent."),
            Parameter::text("sessionId", "Only runs of this session."),
            Parameter::text("parentRunId", "Only runs that this run started."),
            Parameter::text(
                "rootRunId",
                "Only runs below this run, at any depth. Not with `parentRunId`.",
            ),
            Parameter::switch(
                "includeChildren",
                "Whether to list runs that other runs started, too.",
            ),
            Parameter::metadata(),
        ])
        .parameters(page_parameters())
        .returns(200, "A page of runs.", Shape::json::<RunList>())
}

fn stream_run_operation() -> Operation {
    on_run("stream_run", "Follow a run")
                .about(
                    "Server-sent events: `id: <seq>`, `event: <type>`, `data: <Event>`. Numbers start at 1 and have no \
                     gaps. Comments keep the connection open. The stream ends after the terminal event; a client \
                     resumes a stream that ends earlier.",
                )
                .parameters([
                    Parameter::integer("lastSeq", (0, u64::MAX), "Continue after this event. Wins over `Last-Event-ID`."),
                    Parameter::header("Last-Event-ID", "Continue after this event."),
                ])
                .returns(200, "The events after `lastSeq`, as they happen.", Shape::events::<Sequenced>())
                .returns(204, "The run has ended and `Last-Event-ID` alone named its last event.", Shape::empty())
}

fn on_run(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary).target("The id of the run, `run_…`.")
}

/// The parameters that [`page`] reads.
pub(super) fn page_parameters() -> [Parameter; 4] {
    [
        Parameter::integer("limit", (1, PAGE_MAX), "The size of the page.").default(PAGE_DEFAULT),
        Parameter::text("cursor", "`nextCursor` of the page before."),
        Parameter::integer("offset", (0, OFFSET_MAX), "The number of entries to skip.").default(0),
        Parameter::switch("includeTotal", "Whether to count all matches."),
    ]
}

async fn create_run(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
    body: Checked<CreateRun>,
) -> Answer<Response> {
    let service = &app.service;
    if query.flag("dryRun")? {
        let mut report = service.dry_runs().dry_run(&caller, body.request).await?;
        report.warnings.extend(body.warnings);
        return Ok(Json(report).into_response());
    }
    let accepted: RunAccepted = service
        .runs()
        .create(&caller, body.request, body.idempotency)
        .await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

async fn get_run(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
) -> Answer<Json<RunSnapshot>> {
    Ok(Json(
        app.service.runs().snapshot(&caller, &target.id).await?,
    ))
}

async fn list_runs(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
) -> Answer<Json<RunList>> {
    let statuses = RunStatus::ALL.map(RunStatus::as_str).join(", ");
    let filter = RunFilter {
        visible_to: None,
        status: query.word("status", RunStatus::parse, &statuses)?,
        model_id: query.text("modelId")?,
        agent_id: query.text("agentId")?,
        metadata: query.metadata()?,
        session: query.word(
            "sessionId",
            SessionId::parse,
            "the ids of sessions, `ses_…`",
        )?,
        tree: tree_filter(&query)?,
    };
    let page = page(&query)?;
    Ok(Json(app.service.runs().list(&caller, filter, page).await?))
}

/// Roots, unless children are asked for.
fn tree_filter(query: &QueryPairs) -> Answer<TreeFilter> {
    let ids = "the ids of runs, `run_…`";
    let parent = query.word("parentRunId", RunId::parse, ids)?;
    let root = query.word("rootRunId", RunId::parse, ids)?;
    let all = query.flag("includeChildren")?;
    match (parent, root) {
        (Some(_), Some(_)) => {
            let message = "is allowed without `parentRunId` only";
            Err(Error::invalid("rootRunId", message).into())
        }
        (Some(parent), None) => Ok(TreeFilter::ChildrenOf(parent)),
        (None, Some(root)) => Ok(TreeFilter::Below(root)),
        (None, None) if all => Ok(TreeFilter::All),
        (None, None) => Ok(TreeFilter::Roots),
    }
}

async fn stream_run(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    query: QueryPairs,
    headers: HeaderMap,
) -> Answer<Response> {
    let Cursor { after, source } = sse::cursor(&query, &headers)?;
    let runs = app.service.runs();
    let frames = runs.stream(&caller, &target.id, after).await?;
    match runs.log_position(&caller, &target.id, after).await? {
        LogPosition::BeyondEnd => {
            let message =
                "is beyond the last event of the ended run; read the run's events for its number";
            Err(Error::invalid(source.name(), message).into())
        }
        // `EventSource` reconnects after every response but this one. SDKs also send `lastSeq`.
        LogPosition::End if source == CursorSource::Header => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        LogPosition::End | LogPosition::Within => {
            Ok(sse::answer(frames, app.settings.heartbeat, &app.shutdown))
        }
    }
}

async fn list_run_events(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    query: QueryPairs,
) -> Answer<Response> {
    let after = query.integer("after", (0, i64::MAX as u64))?.unwrap_or(0);
    let limit = query
        .integer("limit", (1, EVENTS_MAX))?
        .unwrap_or(EVENTS_DEFAULT);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = app
        .service
        .runs()
        .events(&caller, &target.id, after, limit)
        .await?;
    let body = events_as_json(&page, after);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

async fn submit_tool_result(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    body: Checked<SubmitToolResult>,
) -> Answer<Json<resource::Ok>> {
    app.service
        .runs()
        .submit_tool_result(&caller, &target.id, body.request, body.idempotency)
        .await?;
    Ok(Json(resource::Ok::default()))
}

async fn cancel_run(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
) -> Answer<Json<resource::Ok>> {
    app.service.runs().cancel(&caller, &target.id).await?;
    Ok(Json(resource::Ok::default()))
}

/// The requested page of a list.
pub(super) fn page(query: &QueryPairs) -> Answer<PageRequest> {
    let limit = query
        .integer("limit", (1, PAGE_MAX))?
        .unwrap_or(PAGE_DEFAULT);
    let offset = query.integer("offset", (0, OFFSET_MAX))?.unwrap_or(0);
    Ok(PageRequest {
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        cursor: query.text("cursor")?,
        offset: usize::try_from(offset).unwrap_or(usize::MAX),
        include_total: query.flag("includeTotal")?,
    })
}

/// `{"events":[…],"lastSeq":n,"truncated":false}` from stored frames: their JSON is copied, not parsed.
fn events_as_json(page: &EventPage, after: u64) -> Vec<u8> {
    let EventPage { frames, truncated } = page;
    let size: usize = frames.iter().map(Bytes::len).sum();
    let mut body = Vec::with_capacity(size + 64);
    body.extend_from_slice(b"{\"events\":[");
    let mut last = after;
    let mut first = true;
    for line in frames
        .iter()
        .flat_map(|frame| frame.split(|&byte| byte == b'\n'))
    {
        if let Some(data) = line.strip_prefix(b"data: ") {
            if !first {
                body.push(b',');
            }
            first = false;
            body.extend_from_slice(data);
        } else if let Some(id) = line.strip_prefix(b"id: ") {
            last = std::str::from_utf8(id)
                .ok()
                .and_then(digits)
                .unwrap_or(last);
        }
    }
    body.extend_from_slice(format!("],\"lastSeq\":{last},\"truncated\":{truncated}}}").as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_stored_frames_as_json() {
        let two = "id: 5\nevent: a\ndata: {\"seq\":5}\n\nid: 6\nevent: b\ndata: {\"seq\":6}\n\n";
        let page = EventPage {
            frames: vec![
                Bytes::from(two),
                Bytes::from("id: 7\nevent: c\ndata: {\"seq\":7}\n\n"),
            ],
            truncated: true,
        };
        assert_eq!(
            String::from_utf8(events_as_json(&page, 4)).unwrap(),
            r#"{"events":[{"seq":5},{"seq":6},{"seq":7}],"lastSeq":7,"truncated":true}"#
        );
        assert_eq!(
            events_as_json(&EventPage::default(), 4),
            br#"{"events":[],"lastSeq":4,"truncated":false}"#
        );
    }
}
