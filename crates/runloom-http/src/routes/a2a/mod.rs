//! Published agents over A2A: JSON-RPC at one address per agent, its card, and a list of agents.
//!
//! A task is a run and a context is a session. Errors of credentials, rate limits and unreadable bodies are HTTP
//! errors; errors of the call are JSON-RPC errors with status 200, as both versions require.

mod card;
mod stream;
mod wire;
#[cfg(test)]
mod wire_tests;

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use runloom_ports::store::Idempotency;
use runloom_protocol::resource::{RunSnapshot, RunStatus};
use runloom_protocol::scope::Scope::{A2aDiscovery, A2aInvoke, AgentsInvoke};
use runloom_service::auth::Caller;
use runloom_service::entry_point::EntryPoint;
use runloom_service::error::Error;
use runloom_service::published_agents::{AgentMessage, PublishedAgent};
use runloom_service::rate::Bucket::{self, Lifecycle, Reads, RunStarts};
use runloom_service::rate::RateState;
use serde_json::{Map, Value, json};

use super::base_url;
use crate::app::App;
use crate::error::{Answer, Refusal, rate_headers};
use crate::extract::{Posted, Target};
use crate::guard::Authenticated;
use crate::operation::{Operation, Shape, Tag};
use crate::route::Access::{Either, Published};
use crate::route::Route;
use crate::rpc::{self, Fault, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, Message};
use crate::run_summary;
use crate::sse;
use wire::{Method, Version};

/// How long a cancel waits for the task to stop before it returns the task's state.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The group of A2A and MCP in the OpenAPI document.
pub(super) const TAG: Tag = Tag {
    name: "Published agents",
    about: "Agents for other programs, over A2A and MCP.",
};

pub(super) fn routes() -> Vec<Route> {
    let agent = |path: &str| format!("/api/a2a/{{slug}}/agents/{{id}}{path}");
    let list_all = Published(EntryPoint::A2a, Reads, &[A2aDiscovery]);
    // A credential that may call an agent may read its card.
    let read = Either(EntryPoint::A2a, Reads, [A2aDiscovery, A2aInvoke]);
    let post = Published(EntryPoint::A2a, Reads, &[A2aInvoke, AgentsInvoke]);
    vec![
        Route::get(
            "/api/a2a/{slug}/discovery",
            list_all,
            list,
            Operation::new(TAG, "list_offered_agents", "List the published agents over A2A")
                .about("The agents that the credential can call. Agents with client tools are left out.")
                .returns(200, "The agents, by slug.", Shape::named_json("OfferedAgents", card::list_schema)),
        ),
        Route::post(
            agent(""),
            post,
            call,
            on_agent("call_agent", "Call an agent over A2A")
                .about(
                    "JSON-RPC: `message/send`, `message/stream`, `tasks/get`, `tasks/cancel`, `tasks/resubscribe` of A2A \
                     0.3, and `SendMessage`, `SendStreamingMessage`, `GetTask`, `CancelTask`, `SubscribeToTask` of 1.0. \
                     Messages also count as run starts, cancellations as lifecycle requests.",
                )
                .body(rpc::request_shape())
                .idempotent()
                .returns(200, "The result or a JSON-RPC error; for streaming methods a stream.", rpc::response_shape())
                .returns(200, "", rpc::stream_shape()),
        ),
        Route::get(agent(""), read, get_card, card_operation("get_agent_card_beside")),
        Route::get(
            agent("/.well-known/agent-card.json"),
            read,
            get_card,
            card_operation("get_agent_card"),
        ),
        Route::get(
            agent("/.well-known/agent.json"),
            read,
            get_card,
            card_operation("get_agent_card_older_name"),
        ),
    ]
}

fn card_operation(id: &str) -> Operation {
    on_agent(id, "Read the card of an agent")
        .errors(&[409])
        .returns(
            200,
            "The A2A agent card.",
            Shape::named_json("AgentCard", card::schema),
        )
}

fn on_agent(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary).target("The slug or the id of the agent.")
}

async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    (uri, headers): (Uri, HeaderMap),
) -> Answer<Json<Value>> {
    let base = base_url(&app, &uri, &headers);
    let agents = app.service.published_agents().list(&caller).await?;
    let entry = |agent: &PublishedAgent| card::entry(agent, &address(&base, &caller, agent));
    let agents: Vec<Value> = agents.iter().map(entry).collect();
    Ok(Json(json!({"agents": agents})))
}

async fn get_card(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    (uri, headers): (Uri, HeaderMap),
) -> Answer<Json<Value>> {
    let agent = app
        .service
        .published_agents()
        .callable(&caller, &target.id)
        .await?;
    let base = base_url(&app, &uri, &headers);
    Ok(Json(card::card(&agent, &address(&base, &caller, &agent))))
}

fn address(base: &str, caller: &Caller, agent: &PublishedAgent) -> String {
    let workspace = &caller.workspace.slug;
    format!("{base}/api/a2a/{workspace}/agents/{}", agent.slug)
}

async fn call(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    target: Target,
    posted: Posted,
) -> Answer<Response> {
    let refuse =
        |id: &Value, fault: &Fault| Ok(rpc::respond(StatusCode::OK, &fault.to_response(id)));
    let (id, name, params) = match rpc::read(posted.body) {
        Ok(Message::Call { id, method, params }) => (id, method, params),
        Ok(Message::Notice { .. } | Message::Answer) => {
            let fault = Fault::new(INVALID_REQUEST, "A request with an `id` is expected.");
            return refuse(&Value::Null, &fault);
        }
        Err(unread) => return refuse(&unread.0, &unread.1),
    };
    let version = posted.headers.get("a2a-version");
    if let Some(version) = version
        && !version.to_str().is_ok_and(wire::is_supported)
    {
        let words = "This version of A2A is not spoken here; 1.0 and 0.3 are.";
        return refuse(&id, &Fault::new(wire::VERSION_NOT_SUPPORTED, words));
    }
    let Some((generation, method)) = wire::method(&name) else {
        let shown: String = name.chars().take(100).collect();
        let words = format!("There is no method `{shown}`.");
        return refuse(&id, &Fault::new(rpc::METHOD_NOT_FOUND, words));
    };
    let service = &app.service;
    let found = match method {
        Method::Send | Method::Stream => {
            service
                .published_agents()
                .callable(&caller, &target.id)
                .await
        }
        // An agent that now needs client tools takes no new messages, but its tasks can be read.
        _ => service.published_agents().get(&caller, &target.id).await,
    };
    let agent = match found {
        Ok(agent) => agent,
        Err(Error::Conflict { message }) => {
            let fault = generation.fault(Fault::new(wire::UNSUPPORTED, message));
            return refuse(&id, &fault);
        }
        Err(error) => return Err(error.into()),
    };
    let exchange = AgentCall {
        app,
        caller,
        agent,
        generation,
        id,
        began: posted.began,
    };
    match exchange.perform(method, &params, posted.idempotency).await {
        Ok(response) => Ok(response),
        Err(CallError::Fault(fault)) => refuse(&exchange.id, &generation.fault(fault)),
        Err(CallError::Refusal(refusal)) => Err(refusal),
    }
}

/// Why a call failed.
enum CallError {
    /// A JSON-RPC error.
    Fault(Fault),
    /// An HTTP error.
    Refusal(Refusal),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Service(error) => error.into(),
            other => Self::Refusal(other),
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        let words = error.to_string();
        let code = match &error {
            Error::NotFound { what: "run" } => {
                return Fault::new(wire::TASK_NOT_FOUND, "Task not found").into();
            }
            Error::NotFound { what: "session" } => {
                let words = "`message.contextId` is not a context with this agent; leave it out to begin one.";
                return Fault::new(INVALID_PARAMS, words).into();
            }
            Error::Invalid(_) | Error::IdempotencyKeyReused => INVALID_PARAMS,
            Error::SessionEnded => {
                let words =
                    "The context has ended; leave `message.contextId` out to begin another.";
                return Fault::new(INVALID_PARAMS, words).into();
            }
            Error::AgentUnavailable => INTERNAL,
            _ => return Self::Refusal(error.into()),
        };
        Fault::new(code, words).into()
    }
}

/// One call of one agent.
struct AgentCall {
    app: App,
    caller: Caller,
    agent: PublishedAgent,
    generation: Version,
    id: Value,
    began: Instant,
}

impl AgentCall {
    async fn perform(
        &self,
        method: Method,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<Response, CallError> {
        match method {
            Method::Send => self.send(params, idempotency).await,
            Method::Stream => {
                let (run, _, rate) = self.begin(params, idempotency).await?;
                let mut response = self.stream(run).await?;
                rate_headers(response.headers_mut(), &rate);
                Ok(response)
            }
            Method::Get => {
                let run = self.task(params).await?;
                Ok(self.answer(&self.generation.task(&run)))
            }
            Method::Cancel => self.cancel(params).await,
            Method::Subscribe => {
                let run = self.task(params).await?;
                // Required by 1.0. 0.3 does not say; a late subscriber gets the end.
                if self.generation == Version::V10 && run.status.is_terminal() {
                    let words = "The task has ended; get it instead.";
                    return Err(Fault::new(wire::UNSUPPORTED, words).into());
                }
                self.stream(run).await
            }
            Method::List => {
                let words = "Tasks are not listed; get them by their ids.";
                Err(Fault::new(wire::UNSUPPORTED, words).into())
            }
            Method::ExtendedCard => {
                let words = "There is no other card than the one beside this address.";
                Err(Fault::new(wire::NO_EXTENDED_CARD, words).into())
            }
            Method::Push => {
                let words = "Nobody is called back; stream, subscribe to the task, or get it.";
                Err(Fault::new(wire::PUSH_NOT_SUPPORTED, words).into())
            }
        }
    }

    /// Waits for the answer, at most as long as the request may take. A client whose task continues polls for it.
    async fn send(
        &self,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<Response, CallError> {
        let (run, at_once, rate) = self.begin(params, idempotency).await?;
        let mut run = run;
        if !at_once
            && self
                .wait_for_end(&run, self.app.settings.answer_within)
                .await?
        {
            run = self
                .app
                .service
                .runs()
                .snapshot(&self.caller, run.id.as_str())
                .await?;
        }
        let generation = self.generation;
        let result = match run.status {
            RunStatus::Succeeded if !at_once => {
                generation.named("message", generation.message(&run))
            }
            _ => generation.named("task", generation.task(&run)),
        };
        let mut response = self.answer(&result);
        rate_headers(response.headers_mut(), &rate);
        Ok(response)
    }

    /// Starts the run of a message.
    async fn begin(
        &self,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<(RunSnapshot, bool, RateState), CallError> {
        let service = &self.app.service;
        let incoming = wire::incoming(params)?;
        if let Some(id) = &incoming.task {
            self.find(id).await?;
            let words = "A task takes one message; send the next one with `contextId` and without `taskId`.";
            return Err(Fault::new(wire::UNSUPPORTED, words).into());
        }
        let rate = self.count(RunStarts).await?;
        let ask = AgentMessage {
            text: incoming.text,
            context: incoming.context,
            idempotency,
        };
        let begun = service
            .published_agents()
            .send_message(&self.caller, &self.agent, ask)
            .await?;
        let run = service
            .runs()
            .snapshot(&self.caller, begun.run.as_str())
            .await?;
        Ok((run, incoming.at_once, rate))
    }

    async fn cancel(&self, params: &Map<String, Value>) -> Result<Response, CallError> {
        let run = self.task(params).await?;
        if run.status.is_terminal() {
            let words = format!("The task has ended: it is {}.", run.status);
            return Err(Fault::new(wire::TASK_NOT_CANCELABLE, words).into());
        }
        let rate = self.count(Lifecycle).await?;
        let service = &self.app.service;
        service.runs().cancel(&self.caller, run.id.as_str()).await?;
        self.wait_for_end(&run, STOP_WITHIN).await?;
        let run = service
            .runs()
            .snapshot(&self.caller, run.id.as_str())
            .await?;
        let mut response = self.answer(&self.generation.task(&run));
        rate_headers(response.headers_mut(), &rate);
        Ok(response)
    }

    async fn stream(&self, run: RunSnapshot) -> Result<Response, CallError> {
        let (app, caller) = (self.app.clone(), self.caller.clone());
        let frames = app
            .service
            .runs()
            .stream(&caller, run.id.as_str(), 0)
            .await?;
        let heartbeat = app.settings.heartbeat;
        let tongue = (self.generation, self.id.clone());
        let events = stream::events(app, caller, tongue, run, frames);
        Ok(sse::messages(events, heartbeat, &self.app.shutdown))
    }

    /// The task that the parameters name.
    async fn task(&self, params: &Map<String, Value>) -> Result<RunSnapshot, CallError> {
        self.find(wire::task_id(params)?).await
    }

    /// A task of this agent.
    async fn find(&self, id: &str) -> Result<RunSnapshot, CallError> {
        let service = &self.app.service;
        let (run, agent) = service
            .published_agents()
            .run(&self.caller, EntryPoint::A2a, id)
            .await?;
        let own = (agent.id == self.agent.id).then_some(run);
        Ok(own.ok_or(Error::NotFound { what: "run" })?)
    }

    /// Waits for the end of a run, at most as long as the request may take.
    async fn wait_for_end(&self, run: &RunSnapshot, wanted: Duration) -> Result<bool, CallError> {
        let limit = self.app.settings.request_timeout;
        let wait_limit = run_summary::wait_limit(wanted, limit, self.began.elapsed());
        Ok(run_summary::wait_for_end(&self.app, &self.caller, &run.id, wait_limit).await?)
    }

    async fn count(&self, bucket: Bucket) -> Result<RateState, CallError> {
        let service = &self.app.service;
        let now = service.clock().now();
        Ok(service.rates().let_in(&self.caller, bucket, now).await?)
    }

    fn answer(&self, result: &Value) -> Response {
        rpc::respond(StatusCode::OK, &rpc::answer(&self.id, result))
    }
}
