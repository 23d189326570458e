//! `kind: "mcp"`: the tools of an MCP server over Streamable HTTP, protocol versions 2024-11-05 to 2026-07-28.
//!
//! Reading order: [`Mcp`] (the kind), `pool` (connections and listings), `link` (one connection), `http` (its backend on the
//! guarded client), `events` (a cap), `result` (from MCP's words to ours).

mod events;
mod http;
mod link;
mod pool;
mod result;

use std::sync::Arc;

use async_trait::async_trait;
use runloom_core::error::{Error, Result};
use runloom_core::ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_core::tasks::Tasks;
use runloom_protocol::tools::{McpTool, ToolRef};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::host::ToolLimits;
use crate::kind::Kind;
use crate::outbound::{Outbound, spec_headers};

use link::{Call, Fault};
use pool::Pool;

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
        server: &McpTool,
    ) -> Result<Vec<rmcp::model::Tool>, Fault> {
        let slot = self.pool.slot(workspace, &server.url, &server.headers)?;
        let listed = tokio::time::timeout(self.limits.resolve_timeout, self.pool.tools(&slot));
        match listed.await {
            Ok(tools) => Ok(tools?.as_ref().clone()),
            Err(_) => Err(Fault {
                message: format!(
                    "it did not list its tools within {:?}",
                    self.limits.resolve_timeout
                ),
                broken: true,
            }),
        }
    }

    /// One tool of a server as the workspace's own: called `name`, with the server's schema. A server that is away gives a stub.
    pub(crate) async fn describe(
        &self,
        workspace: &Arc<str>,
        server: &McpTool,
        tool: &str,
    ) -> Result<ServerTool, String> {
        let tools = self.list(workspace, server).await;
        let tools = tools.map_err(|fault| fault.message)?;
        let found: Vec<_> = tools.into_iter().filter(|t| t.name == tool).collect();
        let exposed = result::expose(server, 0, &found).pop();
        exposed.ok_or_else(|| format!("it has no tool \"{tool}\""))
    }

    /// Calls one tool of a server by the server's own name for it; the failure is in words for a model.
    pub(crate) async fn call_tool(
        &self,
        workspace: &Arc<str>,
        server: &McpTool,
        tool: &str,
        call: Invocation,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let asked = Call {
            tool,
            arguments: arguments(call.input),
            tool_use_id: &call.tool_use_id,
        };
        let answer = self.execute(workspace, server, asked, cancel).await;
        answer.map_err(|fault| fault.to_string())
    }

    async fn execute(
        &self,
        workspace: &Arc<str>,
        server: &McpTool,
        call: Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Fault> {
        let slot = self.pool.slot(workspace, &server.url, &server.headers)?;
        let opening = tokio::time::timeout(self.limits.resolve_timeout, self.pool.link(&slot));
        let link = tokio::select! {
            link = opening => link.map_err(|_| Fault {
                message: format!("it cannot be connected to within {:?}", self.limits.resolve_timeout),
                broken: false,
            })??,
            () = cancel.cancelled() => return Err(Fault {
                message: "the call was cancelled before it began".to_owned(),
                broken: false,
            }),
        };
        let answer = link.call(call, &self.limits, &self.tasks, cancel).await;
        slot.touch();
        if answer.as_ref().is_err_and(|fault| fault.broken) || !link.is_alive() {
            slot.forget(&link).await;
        }
        answer.and_then(result::outcome)
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

    async fn check(&self, _workspace: &str, path: &str, tool: &ToolRef) -> Result<()> {
        let ToolRef::Mcp(server) = tool else {
            return Ok(());
        };
        self.outbound
            .check(&server.url)
            .map_err(|error| Error::invalid(format!("{path}.url"), error.to_string()))?;
        spec_headers(&server.headers)
            .map_err(|error| Error::invalid(format!("{path}.headers"), error.to_string()))?;
        Ok(())
    }

    async fn resolve(&self, context: &ToolContext, from: usize, tool: &ToolRef) -> Vec<ServerTool> {
        let ToolRef::Mcp(server) = tool else {
            return Vec::new();
        };
        match self.list(&context.workspace, server).await {
            Ok(tools) => result::expose(server, from, &tools),
            Err(fault) => {
                tracing::info!(server = server.name, why = %fault, "an MCP server is unavailable");
                vec![result::stub(server, from, &fault.message)]
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
        match self
            .call_tool(&context.workspace, server, name, call, &cancel)
            .await
        {
            Ok(outcome) => outcome,
            Err(why) => content::failure(format!(
                "The call to the MCP server \"{}\" failed: {why}.",
                server.name
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
