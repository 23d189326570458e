//! Agents over MCP: each is a tool that takes a message, on one address for all workspaces; the credential says which one.
//!
//! The server keeps nothing of its clients between requests. A call is a run, so a broken connection loses nothing: who comes back with
//! the last place goes on. Refused credentials, full windows and bodies that cannot be read are answered as everywhere else.

mod call;
mod era;

use axum::extract::State;
use axum::http::header::{ACCEPT, ALLOW, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use runloom_protocol::scope::Scope::McpConnect;
use runloom_service::auth::Caller;
use runloom_service::entry_point::EntryPoint;
use runloom_service::error::Error;
use runloom_service::published_agents::{CallNumber, PublishedAgent};
use runloom_service::rate::Bucket::{Lifecycle, Reads, RunStarts};
use serde_json::{Map, Value, json};
use tracing::Instrument;

use crate::app::App;
use crate::error::{Answer, Refusal, rate_headers, rpc_status};
use crate::extract::Posted;
use crate::guard::Signed;
use crate::route::Access::Hosted;
use crate::route::Route;
use crate::rpc::{self, Fault, INVALID_PARAMS, INVALID_REQUEST, Message};
use crate::sse;
use call::Call;
use era::Era;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/mcp", Hosted(EntryPoint::Mcp, Reads, &[McpConnect]), post),
        Route::get("/mcp", Hosted(EntryPoint::Mcp, Reads, &[McpConnect]), go_on),
    ]
}

async fn post(State(app): State<App>, Signed(caller): Signed, posted: Posted) -> Answer<Response> {
    check_origin(&app, &posted.headers)?;
    let era = match Era::of(&posted.headers) {
        Ok(era) => era,
        Err(fault) => return Ok(refused(&Value::Null, &fault)),
    };
    let (id, method, params) = match rpc::read(posted.body) {
        Ok(Message::Call { id, method, params }) => (id, method, params),
        Ok(Message::Notice { method, params }) => {
            if method == "notifications/cancelled" {
                cancel(&app, &caller, &era, &params).await?;
            }
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        Ok(Message::Answer) => return Ok(StatusCode::ACCEPTED.into_response()),
        Err(unread) => return Ok(refused(&unread.0, &unread.1)),
    };
    if let Err(fault) = era.check(&posted.headers, &method, &params) {
        return Ok(refused(&id, &fault));
    }
    let exchange = Exchange {
        app,
        caller,
        era,
        id,
    };
    exchange.perform(&method, &params, &posted.headers).await
}

/// Goes on with the stream of a call whose connection broke. There is no other stream to be had with GET.
async fn go_on(
    State(app): State<App>,
    Signed(caller): Signed,
    headers: HeaderMap,
) -> Answer<Response> {
    check_origin(&app, &headers)?;
    let Some(last) = headers.get("last-event-id") else {
        let allowed = [(ALLOW, HeaderValue::from_static("POST"))];
        return Ok((allowed, Refusal::WrongMethod).into_response());
    };
    let place = last.to_str().ok().and_then(call::placed);
    let (run, seq, id) = place.ok_or_else(|| {
        let message = "must be the id of an event of a stream of this server";
        Error::invalid("Last-Event-ID", message)
    })?;
    app.service
        .published_agent_run(&caller, EntryPoint::Mcp, run.as_str())
        .await?;
    let call = Call {
        app: app.clone(),
        caller: caller.clone(),
        run,
        id,
        progress: None,
        closing_cancels: false,
        primed: false,
        modern: false,
    };
    stream(call, seq).await
}

async fn stream(call: Call, after: u64) -> Answer<Response> {
    let app = call.app.clone();
    let frames = app.service.stream(&call.caller, call.run.as_str(), after);
    let frames = frames.await?;
    let events = call.events(frames, after);
    let heartbeat = app.settings.heartbeat;
    Ok(sse::messages(events, heartbeat, &app.shutdown))
}

/// One request.
#[derive(Clone)]
struct Exchange {
    app: App,
    caller: Caller,
    era: Era,
    id: Value,
}

impl Exchange {
    async fn perform(
        &self,
        method: &str,
        params: &Map<String, Value>,
        headers: &HeaderMap,
    ) -> Answer<Response> {
        let modern = self.era == Era::Modern;
        match method {
            "initialize" if !modern => Ok(self.greet(params)),
            "ping" if !modern => Ok(self.answer(json!({}))),
            "server/discover" if modern => Ok(self.answer(json!({
                "supportedVersions": era::spoken(),
                "capabilities": capabilities(),
                "instructions": INSTRUCTIONS,
                "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
                "ttlMs": 0,
                "cacheScope": "private",
            }))),
            "tools/list" => self.list(params).await,
            "tools/call" => self.call(params, headers).await,
            _ => {
                let shown: String = method.chars().take(100).collect();
                let words = format!("There is no method `{shown}`.");
                Ok(self.refuse(&Fault::new(rpc::METHOD_NOT_FOUND, words)))
            }
        }
    }

    /// The handshake. The session's name is only there to tell the numbers of requests of one client from those of another.
    fn greet(&self, params: &Map<String, Value>) -> Response {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let mut response = self.answer(json!({
            "protocolVersion": era::agreed(asked),
            "capabilities": capabilities(),
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        }));
        let name = format!("mcp_{}", self.app.service.clock().new_id());
        if let Ok(name) = HeaderValue::try_from(name) {
            response.headers_mut().insert(SESSION, name);
        }
        response
    }

    /// All tools at once: a workspace has at most a thousand agents.
    async fn list(&self, params: &Map<String, Value>) -> Answer<Response> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            let words = "`cursor` is none of this server's: the list has one page.";
            return Ok(self.refuse(&Fault::new(INVALID_PARAMS, words)));
        }
        let agents = self.app.service.offered(&self.caller).await?;
        let tools: Vec<Value> = agents.iter().map(tool).collect();
        let mut result = json!({"tools": tools});
        if self.era == Era::Modern {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        Ok(self.answer(result))
    }

    async fn call(&self, params: &Map<String, Value>, headers: &HeaderMap) -> Answer<Response> {
        check_accept(headers)?;
        let service = &self.app.service;
        let name = params.get("name").and_then(Value::as_str);
        let found = service.offered_agent(&self.caller, name.unwrap_or_default());
        let agent = match found.await {
            // By its slug only: that is the tool's name.
            Ok(agent) if Some(agent.slug.as_str()) == name => agent,
            Ok(_) | Err(Error::NotFound { .. }) => {
                let shown: String = name.unwrap_or_default().chars().take(100).collect();
                let words = format!("Unknown tool: {shown}");
                return Ok(self.refuse(&Fault::new(INVALID_PARAMS, words)));
            }
            Err(Error::Conflict { message }) => return Ok(self.answer(call::failed(&message))),
            Err(error) => return Err(error.into()),
        };
        let said = params
            .get("arguments")
            .and_then(|given| given.get("message"));
        let Some(message) = said
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
        else {
            let words = "The argument `message` must be a text: what the agent is asked.";
            return Ok(self.answer(call::failed(words)));
        };
        let now = service.clock().now();
        let rate = service.rates().let_in(&self.caller, RunStarts, now).await?;
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"))
            .filter(|token| token.is_string() || token.is_number())
            .cloned();
        let (exchange, message) = (self.clone(), message.to_owned());
        // In a task of its own, which goes on when the client closes the answer before there is one: the run may have begun by then, and only
        // who knows it can cancel it. An answer that nobody takes is dropped there, as one that is closed.
        let begun = async move { exchange.begin(&agent, &message, token).await };
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; alone it only lives until the run is made and cancelled"
        )]
        let begun = tokio::spawn(begun.in_current_span());
        let mut response = begun.await.map_err(Error::internal)??;
        rate_headers(response.headers_mut(), &rate);
        Ok(response)
    }

    /// Begins the run of a call; the answer follows it.
    async fn begin(
        &self,
        agent: &PublishedAgent,
        message: &str,
        progress: Option<Value>,
    ) -> Answer<Response> {
        let number = match &self.era {
            Era::Handshake {
                session: Some(session),
                ..
            } => Some(CallNumber::new(&self.caller, session, &self.id.to_string())),
            _ => None,
        };
        let service = &self.app.service;
        let begun = service.ask_once(&self.caller, agent, message, number);
        let run = match begun.await {
            Ok(run) => run,
            // What a model can mend, or should hear.
            Err(error @ (Error::Invalid(_) | Error::AgentUnavailable)) => {
                return Ok(self.answer(call::failed(&error.to_string())));
            }
            Err(Error::IdempotencyKeyReused) => {
                let words = "This id was used in this session for another call.";
                return Ok(self.refuse(&Fault::new(INVALID_REQUEST, words)));
            }
            Err(error) => return Err(error.into()),
        };
        let call = Call {
            app: self.app.clone(),
            caller: self.caller.clone(),
            run,
            id: self.id.clone(),
            progress,
            closing_cancels: self.era.closing_cancels(),
            primed: matches!(self.era, Era::Handshake { primed: true, .. }),
            modern: self.era == Era::Modern,
        };
        stream(call, 0).await
    }

    fn answer(&self, result: Value) -> Response {
        let mut result = result;
        if self.era == Era::Modern {
            result["resultType"] = json!("complete");
        }
        rpc::respond(StatusCode::OK, &rpc::answer(&self.id, &result))
    }

    /// With a handshake a request that was understood is answered with 200 whatever the answer is.
    fn refuse(&self, fault: &Fault) -> Response {
        match self.era {
            Era::Handshake { .. } => rpc::respond(StatusCode::OK, &fault.to_answer(&self.id)),
            Era::Modern => refused(&self.id, fault),
        }
    }
}

fn refused(id: &Value, fault: &Fault) -> Response {
    rpc::respond(rpc_status(fault.code), &fault.to_answer(id))
}

/// Cancels the call with the number that a client gave it. One that is not known has ended, or never was: nothing to do.
async fn cancel(app: &App, caller: &Caller, era: &Era, params: &Map<String, Value>) -> Answer<()> {
    let Era::Handshake {
        session: Some(session),
        ..
    } = era
    else {
        return Ok(());
    };
    let Some(number) = params.get("requestId") else {
        return Ok(());
    };
    let service = &app.service;
    let now = service.clock().now();
    service.rates().let_in(caller, Lifecycle, now).await?;
    let number = CallNumber::new(caller, session, &number.to_string());
    if let Some(run) = service.run_of_call(caller, number).await? {
        service.cancel_run(caller, run.as_str()).await?;
    }
    Ok(())
}

const INSTRUCTIONS: &str = "Each tool is an agent: tell it in `message` all that it needs to know; it remembers nothing of earlier calls.";

fn capabilities() -> Value {
    json!({"tools": {"listChanged": false}})
}

fn server_info() -> Value {
    json!({"name": "runloom", "title": "Runloom", "version": env!("CARGO_PKG_VERSION")})
}

fn tool(agent: &PublishedAgent) -> Value {
    let mut tool = json!({
        "name": agent.slug,
        "title": agent.name,
        "description": agent.description.as_deref().unwrap_or(&agent.name),
        "inputSchema": {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What the agent is asked, with all that it needs to know."}},
            "required": ["message"],
        },
    });
    let schema = agent.output_schema.as_ref().map(|output| &output.schema);
    if let Some(schema) = schema.filter(|schema| call::is_object(schema)) {
        tool["outputSchema"] = json!(schema);
    }
    tool
}

/// A page in a browser that made a name of its own point at this server must not get in; everything else in a browser's reach is at this
/// server's own address, or on the same machine.
fn check_origin(app: &App, headers: &HeaderMap) -> Answer<()> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or_default();
    let own = app.settings.public_url.as_deref();
    if own.is_some_and(|own| origin_of(own).eq_ignore_ascii_case(origin)) || is_loopback(origin) {
        return Ok(());
    }
    let message = "This origin may not use MCP here.".to_owned();
    Err(Error::Forbidden { message }.into())
}

/// Scheme and authority of a URL.
fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or("", |(_, rest)| rest);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    matches!(host, Some("localhost" | "127.0.0.1" | "::1"))
}

/// Calls are answered by streams. Who says nothing takes everything.
fn check_accept(headers: &HeaderMap) -> Answer<()> {
    let mut given = headers.get_all(ACCEPT).iter().peekable();
    let takes = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
        ["text/event-stream", "text/*", "*/*"]
            .iter()
            .any(|kind| text.contains(kind))
    };
    if given.peek().is_none() || given.any(takes) {
        return Ok(());
    }
    let message =
        "must name `application/json` and `text/event-stream`: calls are answered by streams";
    Err(Error::invalid("Accept", message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_the_servers_own_or_on_this_machine() {
        assert_eq!(
            origin_of("https://runs.example.com/x"),
            "https://runs.example.com"
        );
        assert_eq!(
            origin_of("https://runs.example.com"),
            "https://runs.example.com"
        );
        for good in [
            "http://localhost:6274",
            "http://127.0.0.1",
            "http://[::1]:8787",
        ] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "http://evil.example",
            "http://localhost.evil.example",
            "null",
            "",
            "http://127.0.0.1.nip.io",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
