//! `kind: "mcp"`: the tools of an MCP server over Streamable HTTP, protocol versions 2024-11-05 to 2026-07-28. Toolsets
//! and tools of definitions use the same client, also over server-sent events and over pipes of processes.
//!
//! Reading order: [`Mcp`] (the kind), `endpoint` (addresses and owners of sessions), `pool` (sessions), `session` (one
//! session), `listing` and `listing_cache` (tool lists), `http_client` and `discovery` (Streamable HTTP on the guarded
//! client), `sse_transport`, `process` (transport on pipes), `event_limit`, `exposure` (tools of a run), `result` (what
//! the model reads).

mod discovery;
mod endpoint;
mod event_limit;
mod exposure;
mod http_client;
mod listing;
mod listing_cache;
mod pool;
mod process;
mod result;
mod session;
mod sse_transport;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::model::ServerResult;
use runloom_ports::error::{Error, Result};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::{McpTool, ToolRef};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::call_secrets::CallSecrets;
use crate::content;
use crate::listing_budget::ListingBudget;
use crate::outbound::{Outbound, spec_headers};
use crate::tool_kind::{IndexedRef, ToolKind, ToolOrigin};
use crate::tool_limits::ToolLimits;
use crate::unavailable_tool;

pub(crate) use endpoint::{McpConnection, McpEndpoint, SessionOwner};
pub(crate) use exposure::override_effect;
use pool::{McpPool, ServerHandle};
pub(crate) use process::Launch;
pub(crate) use result::ResultForm;
use session::{McpError, ToolCall};

const KIND: &str = "mcp";

/// Added to a definition's timeout, so that the definition's own timeout ends the call first, with its own message.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// MCP servers that the server connects to.
pub(crate) struct Mcp {
    outbound: Outbound,
    pool: McpPool,
    tasks: Tasks,
    limits: ToolLimits,
}

/// The tools of a server that a run uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolSelection<'a> {
    /// Prefix of every name, unless it is empty.
    pub(crate) prefix: &'a str,
    /// Names of the tools; `None` selects all.
    pub(crate) filter: Option<&'a [String]>,
    /// Index of the ref.
    pub(crate) index: usize,
}

/// One call of a tool of a server.
pub(crate) struct McpRequest<'a> {
    /// The server's own name of the tool.
    pub(crate) tool: &'a str,
    pub(crate) invocation: Invocation,
    /// Timeout of the definition, if the call belongs to one.
    pub(crate) timeout: Option<Duration>,
    pub(crate) form: ResultForm<'a>,
}

impl Mcp {
    /// Makes no connection before the first ref is resolved.
    pub(crate) fn new(outbound: Outbound, tasks: &Tasks, limits: ToolLimits) -> Self {
        Self {
            pool: McpPool::new(outbound.clone(), tasks, limits.clone()),
            outbound,
            tasks: tasks.clone(),
            limits,
        }
    }

    /// One tool of a server, with the server's schema.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn describe(
        &self,
        connection: &McpConnection<'_>,
        tool: &str,
        budget: &ListingBudget,
    ) -> Result<ServerTool, String> {
        let selection = ToolSelection {
            prefix: "",
            filter: Some(&[tool.to_owned()]),
            index: 0,
        };
        let mut tools = self.expose(connection, selection, budget).await?;
        tools
            .pop()
            .ok_or_else(|| format!("it has no tool \"{tool}\""))
    }

    /// The selected tools of a server.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn expose(
        &self,
        connection: &McpConnection<'_>,
        selection: ToolSelection<'_>,
        budget: &ListingBudget,
    ) -> Result<Vec<ServerTool>, String> {
        let label = match (selection.prefix, selection.filter) {
            ("", Some([tool])) => tool,
            (prefix, _) => prefix,
        };
        let listing = async {
            let server = self.pool.server(connection)?;
            self.pool.tools(&server, label).await
        };
        let listing = listing.await.map_err(|error| error.message)?;
        exposure::expose(selection, &listing.tools, budget)
    }

    /// Calls one tool of a server.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) async fn call_tool(
        &self,
        connection: &McpConnection<'_>,
        request: McpRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let idle_timeout = match request.timeout {
            Some(timeout) => timeout + TIMEOUT_MARGIN,
            None => self.limits.idle_timeout,
        };
        let invocation = request.invocation;
        let call = ToolCall {
            tool: request.tool,
            arguments: arguments(invocation.input),
            tool_use_id: &invocation.tool_use_id,
            trace: invocation.trace,
            idle_timeout,
        };
        let result = self.execute(connection, call, cancel).await;
        let outcome = result.and_then(|result| result::outcome(result, request.form));
        outcome.map_err(|error| error.to_string())
    }

    async fn execute(
        &self,
        connection: &McpConnection<'_>,
        call: ToolCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, McpError> {
        let not_begun = || McpError::transient("the call was cancelled before it began");
        let server = self.pool.server(connection)?;
        let Some(_permit) = cancel.run_until_cancelled(server.call_permit()).await else {
            return Err(not_begun());
        };
        let timeout = self.limits.resolve_timeout;
        let opening = tokio::time::timeout(timeout, self.pool.session(&server));
        let session = tokio::select! {
            session = opening => session.map_err(|_| server.timed_out("cannot connect", timeout))??,
            () = cancel.cancelled() => return Err(not_begun()),
        };
        let mut unanswered = UnansweredCall {
            pool: &self.pool,
            server: &server,
            cancel,
            since: Instant::now(),
            is_answered: false,
        };
        let result = session.call(call, &self.limits, &self.tasks, cancel).await;
        server.touch();
        if result.as_ref().err().is_none_or(McpError::is_refusal) {
            unanswered.is_answered = true;
            server.note_success();
        }
        if result.as_ref().is_err_and(McpError::is_broken) || !session.is_alive() {
            server.drop_session(&session).await;
        }
        result
    }
}

/// Probes a server when a call to it is dropped without an answer, for example after its timeout.
struct UnansweredCall<'a> {
    pool: &'a McpPool,
    server: &'a ServerHandle,
    cancel: &'a CancellationToken,
    since: Instant,
    is_answered: bool,
}

impl Drop for UnansweredCall<'_> {
    fn drop(&mut self) {
        // A cancelled call, or one with hardly any time left, does not show that the server is slow.
        let is_overdue = self.since.elapsed() >= self.pool.probe_after();
        if !self.is_answered && is_overdue && !self.cancel.is_cancelled() {
            self.pool.probe(self.server);
        }
    }
}

/// A placeholder for the tools of a server that cannot be reached.
fn server_placeholder(server: &McpTool, index: usize, reason: &str) -> ServerTool {
    let description = format!(
        "The MCP server \"{}\" is unavailable, so none of its tools can be used. Calling this tool returns the reason.",
        server.name
    );
    let origin = ToolOrigin {
        index,
        target: json!({"kind": KIND}),
    };
    unavailable_tool::placeholder(&server.name, description, origin, reason)
}

#[async_trait]
impl ToolKind for Mcp {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, _workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::Mcp(server) = tool else {
            return Ok(None);
        };
        self.outbound
            .check(&server.url)
            .map_err(|error| Error::invalid(format!("{path}.url"), error.to_string()))?;
        spec_headers(&server.headers)
            .map_err(|error| Error::invalid(format!("{path}.headers"), error.to_string()))?;
        Ok(None)
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        reference: IndexedRef<'_>,
        budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let ToolRef::Mcp(server) = reference.tool else {
            return Vec::new();
        };
        let selection = ToolSelection {
            prefix: &server.name,
            filter: server.tool_filter.as_deref(),
            index: reference.index,
        };
        let endpoint = McpEndpoint::from(server);
        let owner = SessionOwner::of(server.session, &context.run);
        let connection = McpConnection {
            workspace: &context.workspace,
            endpoint: &endpoint,
            owner: &owner,
            idle_close: None,
        };
        let exposed = self.expose(&connection, selection, budget);
        let secrets = CallSecrets::of_headers(&server.headers);
        match exposed.await {
            Ok(tools) => {
                let redacted = tools.into_iter().map(|tool| secrets.redact_tool(tool));
                redacted.collect()
            }
            Err(reason) => {
                let reason = secrets.redact_failure(reason);
                let logged = CallSecrets::of_logged_headers(&server.headers);
                let logged = logged.redact_failure(reason.clone());
                tracing::info!(
                    server = server.name,
                    reason = logged,
                    "MCP server unavailable"
                );
                vec![server_placeholder(server, reference.index, &reason)]
            }
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let Some(ToolRef::Mcp(server)) = context.refs.get(tool.from) else {
            return content::failure("The MCP server of this tool is not in the run's spec.");
        };
        if let Some(reason) = tool.target.get("unavailable").and_then(Value::as_str) {
            return content::failure(format!(
                "The MCP server \"{}\" was unavailable when the run began: {reason}.",
                server.name
            ));
        }
        let Some(name) = tool.target.get("tool").and_then(Value::as_str) else {
            return content::failure("This tool was resolved by another version of the server.");
        };
        let endpoint = McpEndpoint::from(server);
        let owner = SessionOwner::of(server.session, &context.run);
        let connection = McpConnection {
            workspace: &context.workspace,
            endpoint: &endpoint,
            owner: &owner,
            idle_close: None,
        };
        let request = McpRequest {
            tool: name,
            invocation: call,
            timeout: None,
            form: ResultForm::Text,
        };
        let result = self.call_tool(&connection, request, &cancel).await;
        let secrets = CallSecrets::of_headers(&server.headers);
        match result {
            Ok(outcome) => secrets.redact_outcome(outcome),
            Err(reason) => content::failure(format!(
                "The call to the MCP server \"{}\" failed: {}.",
                server.name,
                secrets.redact_failure(reason)
            )),
        }
    }
}

fn arguments(input: Value) -> Map<String, Value> {
    match input {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    }
}
