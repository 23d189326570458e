//! AG-UI: a request of a front end, answered by a stream of events.

use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use runloom_ports::shutdown::Shutdown;
use runloom_protocol::ag_ui::RunAgentInput;
use runloom_protocol::scope::Scope::{RunsRead, SessionsWrite};
use runloom_service::ag_ui::AgUiStream;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket::RunStarts;
use serde_json::{Value, json};

use super::workspace;
use crate::app::App;
use crate::error::Answer;
use crate::extract::Checked;
use crate::guard::Authenticated;
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::Published;
use crate::route::{Access, Route};
use crate::sse;

const ACCESS: Access = Published(
    EntryPoint::DeveloperApi,
    RunStarts,
    &[SessionsWrite, RunsRead],
);

const TAG: Tag = Tag {
    name: "AG-UI",
    about: "Agents for AG-UI front ends.",
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            workspace("/ag-ui"),
            ACCESS,
            run_ag_ui,
            described("run_ag_ui", "Run an agent for an AG-UI client").about(
                "`forwardedProps.runloom` names the agent by `agentId`, or has a `systemPrompt`.",
            ),
        ),
        Route::post(
            workspace("/ag-ui/{agent}"),
            ACCESS,
            run_ag_ui_agent,
            described(
                "run_ag_ui_agent",
                "Run the agent of this id or slug for an AG-UI client",
            ),
        ),
    ]
}

fn described(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(TAG, id, summary)
        .body(Shape::named_json("RunAgentInput", input_schema))
        .errors(&[403, 404, 409])
        .returns(
            200,
            "The events of AG-UI 1.0, from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`.",
            Shape::named_events("AgUiEvent", event_schema),
        )
}

/// The request of AG-UI, as far as this server has limits of its own.
fn input_schema() -> Value {
    let id = |about: &str| json!({"type": "string", "minLength": 1, "maxLength": 200, "description": about});
    let list = |most: usize, about: &str| json!({"type": "array", "maxItems": most, "items": {"type": "object"}, "description": about});
    let text = |about: &str| json!({"type": "string", "description": about});
    json!({
        "type": "object",
        "description": "The `RunAgentInput` of AG-UI 1.0.",
        "required": ["threadId", "runId", "messages"],
        "properties": {
            "threadId": id("The conversation; `ses_…` continues that session."),
            "runId": id("The client's id of this request; a known one is sent again."),
            "parentRunId": text("Repeated in `RUN_STARTED`."),
            "protocolVersion": text("Left out by clients that know no outcomes."),
            "messages": list(1000, "The conversation as the client has it, with what is new."),
            "tools": list(64, "Tools of the front end."),
            "context": list(256, "Information for the model, for this run only."),
            "state": {"description": "State of the front end, for the model and for this run only."},
            "forwardedProps": {"description": "`runloom` may have `agentId` or `systemPrompt`, `modelId`, `reasoningLevel`, `budgets`, `metadata`, `tools` and `onDisconnect`."},
            "resume": list(256, "Answers to interrupts: `interruptId`, `status` and, when it is `resolved`, `payload` with `approved` and `input`."),
        },
    })
}

fn event_schema() -> Value {
    json!({
        "type": "object",
        "description": "An event of AG-UI 1.0.",
        "required": ["type"],
        "properties": {"type": {"type": "string", "description": "The kind of event."}},
    })
}

async fn run_ag_ui(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    body: Checked<RunAgentInput>,
) -> Answer<Response> {
    let events = app.service.ag_ui().run(&caller, None, body.request).await?;
    Ok(answer(&app, events))
}

async fn run_ag_ui_agent(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((_, agent)): Path<(String, String)>,
    body: Checked<RunAgentInput>,
) -> Answer<Response> {
    let events = app.service.ag_ui().run(&caller, Some(&agent), body.request);
    Ok(answer(&app, events.await?))
}

/// The stream ends by itself when the server stops, with an event that says so.
fn answer(app: &App, events: AgUiStream) -> Response {
    sse::messages(frames(events), app.settings.heartbeat, &Shutdown::default())
}

/// Events as frames with `data` alone: clients read no other lines.
fn frames(events: AgUiStream) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(events, |mut events| async move {
        let event = events.next().await?;
        let mut frame = b"data: ".to_vec();
        // No event has a value that cannot be written.
        serde_json::to_writer(&mut frame, &event).ok()?;
        frame.extend_from_slice(b"\n\n");
        Some((Bytes::from(frame), events))
    })
}
