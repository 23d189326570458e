//! Published agents over MCP: each is a tool that takes a message, at one address for all workspaces.
//!
//! The credential selects the workspace. The server keeps no client state between requests. A call is a run, so a
//! client whose connection broke resumes with the last event id. Errors of credentials, rate limits and unreadable
//! bodies are HTTP errors.

mod call;
mod protocol_version;

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

use super::a2a::TAG;
use crate::app::App;
use crate::error::{Answer, Refusal, rate_headers, rpc_status};
use crate::extract::Posted;
use crate::guard::Authenticated;
use crate::operation::{ErrorShape, Operation, Parameter, Shape};
use crate::route::Access::Published;
use crate::route::Route;
use crate::rpc::{self, Fault, INVALID_PARAMS, INVALID_REQUEST, Message};
use crate::sse;
use call::Call;
use protocol_version::ProtocolVersion;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/mcp",
            Published(EntryPoint::Mcp, Reads, &[McpConnect]),
            post,
            Operation::new(TAG, "mcp", "Call agents over MCP")
                .about(
                    "MCP over Streamable HTTP: `initialize`, `ping`, `server/discover`, `tools/list`, `tools/call`, \
                     `notifications/cancelled`. Each agent is a tool. Calls also count as run starts. The response to \
                     `initialize` has an `Mcp-Session-Id`; calls can be cancelled only when requests repeat it.",
                )
                .body(rpc::request_shape())
                .parameters([Parameter::header("Mcp-Session-Id", "From the response to `initialize`.")])
                .returns(200, "The result or a JSON-RPC error; for `tools/call` a stream.", rpc::response_shape())
                .returns(200, "", rpc::stream_shape())
                .returns(202, "A notification or response was received.", Shape::empty())
                .errors(&[400, 404])
                .errors_as(ErrorShape::Rpc, &[400, 404, 500]),
        ),
        Route::get(
            "/mcp",
            Published(EntryPoint::Mcp, Reads, &[McpConnect]),
            resume,
            Operation::new(TAG, "resume_mcp", "Resume the stream of a call")
                .about("For a client whose connection broke during `tools/call`. Without `Last-Event-ID` 405.")
                .parameters([Parameter::header("Last-Event-ID", "The id of the last event that arrived.").required()])
                .returns(200, "The rest of the stream.", rpc::stream_shape())
                .errors(&[404, 405]),
        ),
    ]
}

async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    posted: Posted,
) -> Answer<Response> {
    check_origin(&app, &posted.headers)?;
    let protocol_version = match ProtocolVersion::of(&posted.headers) {
        Ok(protocol_version) => protocol_version,
        Err(fault) => return Ok(refused(&Value::Null, &fault)),
    };
    let (id, method, params) = match rpc::read(posted.body) {
        Ok(Message::Call { id, method, params }) => (id, method, params),
        Ok(Message::Notice { method, params }) => {
            if method == "notifications/cancelled" {
                cancel(&app, &caller, &protocol_version, &params).await?;
            }
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        Ok(Message::Answer) => return Ok(StatusCode::ACCEPTED.into_response()),
        Err(unread) => return Ok(refused(&unread.0, &unread.1)),
    };
    if let Err(fault) = protocol_version.check(&posted.headers, &method, &params) {
        return Ok(refused(&id, &fault));
    }
    let exchange = McpRequest {
        app,
        caller,
        protocol_version,
        id,
    };
    exchange.perform(&method, &params, &posted.headers).await
}

/// Resumes the stream of a call. `GET` offers no other stream.
async fn resume(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
) -> Answer<Response> {
    check_origin(&app, &headers)?;
    let Some(last) = headers.get("last-event-id") else {
        let allowed = [(ALLOW, HeaderValue::from_static("POST"))];
        return Ok((allowed, Refusal::WrongMethod).into_response());
    };
    let place = last.to_str().ok().and_then(call::parse_event_id);
    let (run, seq, id) = place.ok_or_else(|| {
        let message = "must be the id of an event of a stream of this server";
        Error::invalid("Last-Event-ID", message)
    })?;
    app.service
        .published_agents()
        .run(&caller, EntryPoint::Mcp, run.as_str())
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
    let frames = app
        .service
        .runs()
        .stream(&call.caller, call.run.as_str(), after);
    let frames = frames.await?;
    let events = call.events(frames, after);
    let heartbeat = app.settings.heartbeat;
    Ok(sse::messages(events, heartbeat, &app.shutdown))
}

/// One request.
#[derive(Clone)]
struct McpRequest {
    app: App,
    caller: Caller,
    protocol_version: ProtocolVersion,
    id: Value,
}

impl McpRequest {
    async fn perform(
        &self,
        method: &str,
        params: &Map<String, Value>,
        headers: &HeaderMap,
    ) -> Answer<Response> {
        let modern = self.protocol_version == ProtocolVersion::Modern;
        match method {
            "initialize" if !modern => Ok(self.initialize(params)),
            "ping" if !modern => Ok(self.answer(json!({}))),
            "server/discover" if modern => Ok(self.answer(json!({
                "supportedVersions": protocol_version::supported(),
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

    /// The handshake. The session id only separates the request ids of different clients.
    fn initialize(&self, params: &Map<String, Value>) -> Response {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let mut response = self.answer(json!({
            "protocolVersion": protocol_version::agreed(asked),
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

    /// All tools in one page: a workspace has at most a thousand agents.
    async fn list(&self, params: &Map<String, Value>) -> Answer<Response> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            let words = "`cursor` is none of this server's: the list has one page.";
            return Ok(self.refuse(&Fault::new(INVALID_PARAMS, words)));
        }
        let agents = self
            .app
            .service
            .published_agents()
            .list(&self.caller)
            .await?;
        let tools: Vec<Value> = agents.iter().map(tool).collect();
        let mut result = json!({"tools": tools});
        if self.protocol_version == ProtocolVersion::Modern {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        Ok(self.answer(result))
    }

    async fn call(&self, params: &Map<String, Value>, headers: &HeaderMap) -> Answer<Response> {
        check_accept(headers)?;
        let service = &self.app.service;
        let name = params.get("name").and_then(Value::as_str);
        let found = service
            .published_agents()
            .callable(&self.caller, name.unwrap_or_default());
        let agent = match found.await {
            // Only by slug, which is the name of the tool.
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
        // In a task of its own, which continues when the client closes the response early: the run may have started
        // by then, and only this task can cancel it. A response without a receiver is dropped like a closed one.
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

    /// Starts the run of a call and streams it.
    async fn begin(
        &self,
        agent: &PublishedAgent,
        message: &str,
        progress: Option<Value>,
    ) -> Answer<Response> {
        let number = match &self.protocol_version {
            ProtocolVersion::Handshake {
                session: Some(session),
                ..
            } => Some(CallNumber::new(&self.caller, session, &self.id.to_string())),
            _ => None,
        };
        let service = &self.app.service;
        let begun = service
            .published_agents()
            .call(&self.caller, agent, message, number);
        let run = match begun.await {
            Ok(run) => run,
            // Errors that the model should see.
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
            closing_cancels: self.protocol_version.closing_cancels(),
            primed: matches!(
                self.protocol_version,
                ProtocolVersion::Handshake { primed: true, .. }
            ),
            modern: self.protocol_version == ProtocolVersion::Modern,
        };
        stream(call, 0).await
    }

    fn answer(&self, result: Value) -> Response {
        let mut result = result;
        if self.protocol_version == ProtocolVersion::Modern {
            result["resultType"] = json!("complete");
        }
        rpc::respond(StatusCode::OK, &rpc::answer(&self.id, &result))
    }

    /// With a handshake, a valid request gets status 200 whatever its outcome.
    fn refuse(&self, fault: &Fault) -> Response {
        match self.protocol_version {
            ProtocolVersion::Handshake { .. } => {
                rpc::respond(StatusCode::OK, &fault.to_response(&self.id))
            }
            ProtocolVersion::Modern => refused(&self.id, fault),
        }
    }
}

fn refused(id: &Value, fault: &Fault) -> Response {
    rpc::respond(rpc_status(fault.code), &fault.to_response(id))
}

/// Cancels the call with a client's request id. An unknown id is ignored: the call may have ended.
async fn cancel(
    app: &App,
    caller: &Caller,
    protocol_version: &ProtocolVersion,
    params: &Map<String, Value>,
) -> Answer<()> {
    let ProtocolVersion::Handshake {
        session: Some(session),
        ..
    } = protocol_version
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
    if let Some(run) = service
        .published_agents()
        .run_of_call(caller, number)
        .await?
    {
        service.runs().cancel(caller, run.as_str()).await?;
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

/// Checks `Origin` against DNS rebinding: only pages from this server's own address or from the same machine are
/// allowed.
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

/// True when the client accepts event streams. Without `Accept` everything is accepted.
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
    fn allows_own_and_loopback_origins() {
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
