//! `kind: "mcp"`: the tools of an MCP server over Streamable HTTP, protocol versions 2024-11-05 to 2026-07-28.
//!
//! Plugins of the operator may also bring servers that are processes of this machine.
//!
//! Reading order: [`Mcp`] (the kind), `endpoint` (where a server is), `pool` (connections and listings), `link` (one connection),
//! `listing` (what is kept of a list), `http` (its backend on the guarded client) and `process` (its pipes), `events` (a cap), `result` (from MCP's words to ours).

mod endpoint;
mod events;
mod http;
mod link;
mod listing;
mod pool;
mod process;
mod result;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use runloom_ports::error::{Error, Result};
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::ToolRef;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::action::Secrets;
use crate::budget::Budget;
use crate::content;
use crate::host::ToolLimits;
use crate::kind::Kind;
use crate::outbound::{Outbound, spec_headers};

pub(crate) use endpoint::Endpoint;
pub(crate) use http::MAX_REFUSAL_BYTES;
use link::{Call, Fault};
use listing::Listing;
use pool::{Held, Pool};
pub(crate) use process::Launch;

/// Whoever gives a call its time ends it with it, in its own words: the clock here is later by this.
const MARGIN: Duration = Duration::from_secs(5);

/// MCP servers that the server connects to.
pub(crate) struct Mcp {
    outbound: Outbound,
    pool: Pool,
    tasks: Tasks,
    limits: ToolLimits,
}

impl Mcp {
    /// No connection is made before the first ref is resolved.
    pub(crate) fn new(outbound: Outbound, tasks: &Tasks, limits: ToolLimits) -> Self {
        Self {
            pool: Pool::new(outbound.clone(), tasks, limits.clone()),
            outbound,
            tasks: tasks.clone(),
            limits,
        }
    }

    async fn list(
        &self,
        workspace: &Arc<str>,
        server: &Endpoint,
        called: &str,
    ) -> Result<Arc<Listing>, Fault> {
        let slot = self.pool.slot(workspace, server)?;
        self.pool.tools(&slot, called).await
    }

    /// One tool of a server, with the server's schema; the failure is in words for a model.
    pub(crate) async fn describe(
        &self,
        workspace: &Arc<str>,
        server: &Endpoint,
        tool: &str,
        budget: &Budget,
    ) -> Result<ServerTool, String> {
        let filter = [tool.to_owned()];
        let found = self.expose(workspace, server, ("", Some(&filter)), (0, budget));
        let found = found.await?.pop();
        found.ok_or_else(|| format!("it has no tool \"{tool}\""))
    }

    /// The tools of a server, their names prefixed; the failure is in words for a model.
    pub(crate) async fn expose(
        &self,
        workspace: &Arc<str>,
        server: &Endpoint,
        (prefix, filter): (&str, Option<&[String]>),
        (from, budget): (usize, &Budget),
    ) -> Result<Vec<ServerTool>, String> {
        let called = match (prefix, filter) {
            ("", Some([tool])) => tool,
            _ => prefix,
        };
        let listing = self.list(workspace, server, called).await;
        let listing = listing.map_err(|fault| fault.message)?;
        result::expose((prefix, filter), (from, budget), &listing.tools)
    }

    /// Calls one tool of a server by the server's own name for it; `within` is the time that its definition gives it. The failure is
    /// in words for a model.
    pub(crate) async fn call_tool(
        &self,
        workspace: &Arc<str>,
        server: &Endpoint,
        tool: &str,
        call: Invocation,
        (within, cancel): (Option<Duration>, &CancellationToken),
    ) -> Result<Outcome, String> {
        let asked = Call {
            tool,
            arguments: arguments(call.input),
            tool_use_id: &call.tool_use_id,
            trace: call.trace,
            idle: within.map_or(self.limits.idle_timeout, |time| time + MARGIN),
        };
        let answer = self.execute(workspace, server, asked, cancel).await;
        answer.map_err(|fault| fault.to_string())
    }

    async fn execute(
        &self,
        workspace: &Arc<str>,
        server: &Endpoint,
        call: Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Fault> {
        let slot = self.pool.slot(workspace, server)?;
        let Some(_turn) = cancel.run_until_cancelled(slot.turn()).await else {
            return Err(Fault::passing("the call was cancelled before it began"));
        };
        let opening = tokio::time::timeout(self.limits.resolve_timeout, self.pool.link(&slot));
        let link = tokio::select! {
            link = opening => link.map_err(|_| slot.late("it cannot be connected to", self.limits.resolve_timeout))??,
            () = cancel.cancelled() => {
                return Err(Fault::passing("the call was cancelled before it began"));
            }
        };
        let mut waiting = Waiting {
            pool: &self.pool,
            slot: &slot,
            cancel,
            since: Instant::now(),
            answered: false,
        };
        let answer = link.call(call, &self.limits, &self.tasks, cancel).await;
        slot.touch();
        if answer.as_ref().err().is_none_or(Fault::is_refusal) {
            waiting.answered = true;
            slot.worked();
        }
        if answer.as_ref().is_err_and(Fault::is_broken) || !link.is_alive() {
            slot.forget(&link).await;
        }
        answer.and_then(result::outcome)
    }
}

/// A call that may be given up, also by whoever drops it because its time is over.
struct Waiting<'a> {
    pool: &'a Pool,
    slot: &'a Held,
    cancel: &'a CancellationToken,
    since: Instant,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Who cancels does not say that the server was slow, nor does who had no time left when its turn came.
        let waited = self.since.elapsed() >= self.pool.patience();
        if !self.answered && waited && !self.cancel.is_cancelled() {
            self.pool.doubt(self.slot);
        }
    }
}

#[async_trait]
impl Kind for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::Mcp(_))
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
        (from, tool): (usize, &ToolRef),
        budget: &Budget,
    ) -> Vec<ServerTool> {
        let ToolRef::Mcp(server) = tool else {
            return Vec::new();
        };
        let wanted = (server.name.as_str(), server.tool_filter.as_deref());
        let endpoint = Endpoint::from(server);
        let found = self.expose(&context.workspace, &endpoint, wanted, (from, budget));
        let secrets = Secrets::of_headers(&server.headers);
        match found.await {
            Ok(tools) => {
                let shown = tools.into_iter().map(|tool| secrets.redact_tool(tool));
                shown.collect()
            }
            Err(why) => {
                let why = secrets.redact_failure(why);
                let logged = Secrets::of_headers_for_the_log(&server.headers);
                let logged = logged.redact_failure(why.clone());
                tracing::info!(
                    server = server.name,
                    why = logged,
                    "an MCP server is unavailable"
                );
                vec![result::stub(server, from, &why)]
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
        if let Some(why) = tool.target.get("unavailable").and_then(Value::as_str) {
            return content::failure(format!(
                "The MCP server \"{}\" was unavailable when the run began: {why}.",
                server.name
            ));
        }
        let Some(name) = tool.target.get("tool").and_then(Value::as_str) else {
            return content::failure("This tool was resolved by another version of the server.");
        };
        let (endpoint, bounds) = (Endpoint::from(server), (None, &cancel));
        let calling = self.call_tool(&context.workspace, &endpoint, name, call, bounds);
        let called = calling.await;
        let secrets = Secrets::of_headers(&server.headers);
        match called {
            Ok(outcome) => secrets.redact_outcome(outcome),
            Err(why) => content::failure(format!(
                "The call to the MCP server \"{}\" failed: {}.",
                server.name,
                secrets.redact_failure(why)
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
