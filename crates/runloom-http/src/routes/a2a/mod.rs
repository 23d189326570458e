//! Agents over A2A: JSON-RPC on one address per agent, its card beside it, and a list of them.
//!
//! A task is a run and a context is a session. Refused credentials, full windows and bodies that cannot be read are answered as
//! everywhere else; what is wrong with a call itself is a JSON-RPC error with status 200, as both generations have it.

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
use runloom_service::published_agents::{Ask, PublishedAgent};
use runloom_service::rate::Bucket::{self, Lifecycle, Reads, RunStarts};
use runloom_service::rate::RateState;
use serde_json::{Map, Value, json};

use super::base_url;
use crate::app::App;
use crate::error::{Answer, Refusal, rate_headers};
use crate::extract::{Posted, Target};
use crate::follow;
use crate::guard::Signed;
use crate::route::Access::{Either, Hosted};
use crate::route::Route;
use crate::rpc::{self, Fault, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, Message};
use crate::sse;
use wire::{Generation, Method};

/// How long a cancel waits for the task to stop before it tells how the task stands.
const STOP_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Vec<Route> {
    let agent = |path: &str| format!("/api/a2a/{{slug}}/agents/{{id}}{path}");
    let list_all = Hosted(EntryPoint::A2a, Reads, &[A2aDiscovery]);
    // Who may call an agent may read how.
    let read = Either(EntryPoint::A2a, Reads, [A2aDiscovery, A2aInvoke]);
    let post = Hosted(EntryPoint::A2a, Reads, &[A2aInvoke, AgentsInvoke]);
    vec![
        Route::get("/api/a2a/{slug}/discovery", list_all, list),
        Route::post(agent(""), post, call),
        Route::get(agent(""), read, get_card),
        Route::get(agent("/.well-known/agent-card.json"), read, get_card),
        Route::get(agent("/.well-known/agent.json"), read, get_card),
    ]
}

async fn list(
    State(app): State<App>,
    Signed(caller): Signed,
    (uri, headers): (Uri, HeaderMap),
) -> Answer<Json<Value>> {
    let base = base_url(&app, &uri, &headers);
    let agents = app.service.offered(&caller).await?;
    let entry = |agent: &PublishedAgent| card::entry(agent, &address(&base, &caller, agent));
    let agents: Vec<Value> = agents.iter().map(entry).collect();
    Ok(Json(json!({"agents": agents})))
}

async fn get_card(
    State(app): State<App>,
    Signed(caller): Signed,
    target: Target,
    (uri, headers): (Uri, HeaderMap),
) -> Answer<Json<Value>> {
    let agent = app.service.offered_agent(&caller, &target.id).await?;
    let base = base_url(&app, &uri, &headers);
    Ok(Json(card::card(&agent, &address(&base, &caller, &agent))))
}

fn address(base: &str, caller: &Caller, agent: &PublishedAgent) -> String {
    let workspace = &caller.workspace.slug;
    format!("{base}/api/a2a/{workspace}/agents/{}", agent.slug)
}

async fn call(
    State(app): State<App>,
    Signed(caller): Signed,
    target: Target,
    posted: Posted,
) -> Answer<Response> {
    let refuse = |id: &Value, fault: &Fault| Ok(rpc::respond(StatusCode::OK, &fault.to_answer(id)));
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
        && !version.to_str().is_ok_and(wire::is_spoken)
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
        Method::Send | Method::Stream => service.offered_agent(&caller, &target.id).await,
        // An agent that got tools for its client takes no new messages, but its tasks are still there.
        _ => service.known_agent(&caller, &target.id).await,
    };
    let agent = match found {
        Ok(agent) => agent,
        Err(Error::Conflict { message }) => {
            let fault = generation.fault(Fault::new(wire::UNSUPPORTED, message));
            return refuse(&id, &fault);
        }
        Err(error) => return Err(error.into()),
    };
    let exchange = Exchange {
        app,
        caller,
        agent,
        generation,
        id,
        began: posted.began,
    };
    match exchange.perform(method, &params, posted.idempotency).await {
        Ok(response) => Ok(response),
        Err(Trouble::Fault(fault)) => refuse(&exchange.id, &generation.fault(fault)),
        Err(Trouble::Refusal(refusal)) => Err(refusal),
    }
}

/// Why a call has no result.
enum Trouble {
    /// The call itself is wrong.
    Fault(Fault),
    /// Something around it.
    Refusal(Refusal),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Core(error) => error.into(),
            other => Self::Refusal(other),
        }
    }
}

impl From<Error> for Trouble {
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

/// One call to one agent.
struct Exchange {
    app: App,
    caller: Caller,
    agent: PublishedAgent,
    generation: Generation,
    id: Value,
    began: Instant,
}

impl Exchange {
    async fn perform(
        &self,
        method: Method,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<Response, Trouble> {
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
                // 1.0 wants it so; 0.3 is silent, and who came too late there gets the end.
                if self.generation == Generation::V10 && run.status.is_terminal() {
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

    /// Waits for the answer, though not longer than a request may take: who is told that the task is being worked on asks for it again.
    async fn send(
        &self,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<Response, Trouble> {
        let (run, at_once, rate) = self.begin(params, idempotency).await?;
        let mut run = run;
        if !at_once && self.ended(&run, self.app.settings.answer_within).await? {
            run = self.app.service.run(&self.caller, run.id.as_str()).await?;
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

    /// Begins the run of a message; also whether its sender wants to be answered at once, and the window that it was counted in.
    async fn begin(
        &self,
        params: &Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<(RunSnapshot, bool, RateState), Trouble> {
        let service = &self.app.service;
        let incoming = wire::incoming(params)?;
        if let Some(id) = &incoming.task {
            self.find(id).await?;
            let words = "A task takes one message; send the next one with `contextId` and without `taskId`.";
            return Err(Fault::new(wire::UNSUPPORTED, words).into());
        }
        let rate = self.count(RunStarts).await?;
        let ask = Ask {
            text: incoming.text,
            context: incoming.context,
            idempotency,
        };
        let begun = service.converse(&self.caller, &self.agent, ask).await?;
        let run = service.run(&self.caller, begun.run.as_str()).await?;
        Ok((run, incoming.at_once, rate))
    }

    async fn cancel(&self, params: &Map<String, Value>) -> Result<Response, Trouble> {
        let run = self.task(params).await?;
        if run.status.is_terminal() {
            let words = format!("The task has ended: it is {}.", run.status);
            return Err(Fault::new(wire::TASK_NOT_CANCELABLE, words).into());
        }
        let rate = self.count(Lifecycle).await?;
        let service = &self.app.service;
        service.cancel_run(&self.caller, run.id.as_str()).await?;
        self.ended(&run, STOP_WITHIN).await?;
        let run = service.run(&self.caller, run.id.as_str()).await?;
        let mut response = self.answer(&self.generation.task(&run));
        rate_headers(response.headers_mut(), &rate);
        Ok(response)
    }

    async fn stream(&self, run: RunSnapshot) -> Result<Response, Trouble> {
        let (app, caller) = (self.app.clone(), self.caller.clone());
        let frames = app.service.stream(&caller, run.id.as_str(), 0).await?;
        let heartbeat = app.settings.heartbeat;
        let tongue = (self.generation, self.id.clone());
        let events = stream::events(app, caller, tongue, run, frames);
        Ok(sse::messages(events, heartbeat, &self.app.shutdown))
    }

    /// The task that the parameters name.
    async fn task(&self, params: &Map<String, Value>) -> Result<RunSnapshot, Trouble> {
        self.find(wire::task_id(params)?).await
    }

    /// A task of this agent.
    async fn find(&self, id: &str) -> Result<RunSnapshot, Trouble> {
        let service = &self.app.service;
        let (run, agent) = service
            .published_agent_run(&self.caller, EntryPoint::A2a, id)
            .await?;
        let own = (agent.id == self.agent.id).then_some(run);
        Ok(own.ok_or(Error::NotFound { what: "run" })?)
    }

    /// Waits for the end of a run, though not into the end of the request.
    async fn ended(&self, run: &RunSnapshot, wanted: Duration) -> Result<bool, Trouble> {
        let limit = self.app.settings.request_timeout;
        let patience = follow::patience(wanted, limit, self.began.elapsed());
        Ok(follow::ended(&self.app, &self.caller, &run.id, patience).await?)
    }

    async fn count(&self, bucket: Bucket) -> Result<RateState, Trouble> {
        let service = &self.app.service;
        let now = service.clock().now();
        Ok(service.rates().let_in(&self.caller, bucket, now).await?)
    }

    fn answer(&self, result: &Value) -> Response {
        rpc::respond(StatusCode::OK, &rpc::answer(&self.id, result))
    }
}
