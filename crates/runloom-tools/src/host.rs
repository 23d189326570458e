//! The host: one table of kinds, and what they share.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use runloom_ports::error::Result;
use runloom_ports::memory::WorkspaceMemory;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    FetchedFile, Invocation, Outcome, ServerTool, ToolContext, ToolDefinitions, ToolHost,
};
use runloom_protocol::resource::InstalledPlugin;
use runloom_protocol::tools::ToolRef;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::a2a::A2a;
use crate::action::Actions;
use crate::budget::Budget;
use crate::code::{Sandbox, SandboxProgram};
use crate::content;
use crate::fetch;
use crate::http::Http;
use crate::kind::Kind;
use crate::mcp::Mcp;
use crate::names;
use crate::outbound::Outbound;
use crate::plugin::{Installed, PluginSet, Plugins, Shipped};
use crate::workspace::WorkspaceTools;

/// How long and how much tools may take.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// Connecting to one MCP server and listing its tools.
    pub resolve_timeout: Duration,
    /// A call without a sign of life; progress notifications start it anew.
    pub idle_timeout: Duration,
    /// A call in all, whatever it reports.
    pub call_timeout: Duration,
    /// How long a listing of an MCP server is used again.
    pub listing_ttl: Duration,
    /// How long an unused MCP connection is kept.
    pub connection_idle: Duration,
    /// MCP connections at once; who needs one more waits for it within the `resolve_timeout`.
    pub max_connections: usize,
    /// MCP connections of one workspace at once.
    pub max_workspace_connections: usize,
    /// How long an unused MCP process is kept.
    pub process_idle: Duration,
    /// MCP processes at once.
    pub max_processes: usize,
    /// Calls at once to one MCP process; more wait for their turn.
    pub process_concurrency: u32,
    /// How long an MCP process that left a call unanswered may take to show that it lives.
    pub process_answer: Duration,
    /// Code tools that run at once, each in a process of its own; more wait for their turn.
    pub max_sandboxes: usize,
    /// Code tools of one workspace that run at once.
    pub max_workspace_sandboxes: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            resolve_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(600),
            listing_ttl: Duration::from_secs(30),
            connection_idle: Duration::from_secs(60),
            max_connections: 1024,
            max_workspace_connections: 256,
            process_idle: Duration::from_secs(600),
            max_processes: 64,
            process_concurrency: 16,
            process_answer: Duration::from_secs(5),
            max_sandboxes: 32,
            max_workspace_sandboxes: 8,
        }
    }
}

/// What a host works with.
pub struct HostParts {
    /// The way out for every connection.
    pub outbound: Outbound,
    /// What workspaces define.
    pub definitions: Arc<dyn ToolDefinitions>,
    /// Plugins of the operator's configuration.
    pub plugins: PluginSet,
    /// What workspaces remember; without it there is no `@memory`.
    pub memory: Option<Arc<dyn WorkspaceMemory>>,
    /// What code tools run in; without it they are switched off.
    pub sandbox: Option<SandboxProgram>,
    /// How long and how much.
    pub limits: ToolLimits,
}

/// Resolves and executes server-resolved tools.
pub struct Host {
    kinds: Vec<Arc<dyn Kind>>,
    installed: Arc<Installed>,
    outbound: Outbound,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        f.debug_struct("Host").field("kinds", &names).finish()
    }
}

impl Host {
    /// A host whose every connection goes through the one way out; idle connections are closed by one of the `tasks`.
    #[must_use]
    pub fn new(parts: HostParts, tasks: &Tasks) -> Self {
        let HostParts {
            outbound,
            definitions,
            plugins,
            memory,
            sandbox,
            limits,
        } = parts;
        let definitions = Arc::new(Installed::new(definitions, plugins, memory.is_some()));
        let mcp = Arc::new(Mcp::new(outbound.clone(), tasks, limits.clone()));
        let a2a = Arc::new(A2a::new(outbound.clone(), tasks.clone(), limits.clone()));
        let actions = Arc::new(Actions {
            definitions: Arc::clone(&definitions) as _,
            shipped: Shipped::new(outbound.clone(), memory),
            http: Http::new(outbound.clone()),
            code: sandbox.map(|program| Sandbox::new(program, outbound.clone(), &limits)),
            outbound: outbound.clone(),
            mcp: Arc::clone(&mcp),
            a2a: Arc::clone(&a2a),
            schemas: Arc::default(),
        });
        // The table: a new kind is a folder and a line.
        let kinds: Vec<Arc<dyn Kind>> = vec![
            mcp,
            a2a,
            Arc::new(WorkspaceTools::new(Arc::clone(&actions))),
            Arc::new(Plugins::new(Arc::clone(&definitions), actions)),
        ];
        Self {
            kinds,
            installed: definitions,
            outbound,
        }
    }

    fn kind_of(&self, tool: &ToolRef) -> Option<&dyn Kind> {
        let kind = self.kinds.iter().find(|kind| kind.takes(tool))?;
        Some(kind.as_ref())
    }
}

#[async_trait]
impl ToolHost for Host {
    async fn check(&self, workspace: &str, refs: &[ToolRef]) -> Result<()> {
        let mut known = Vec::with_capacity(refs.len());
        for (index, tool) in refs.iter().enumerate() {
            let path = format!("tools[{index}]");
            let name = match self.kind_of(tool) {
                Some(kind) => kind.check(workspace, &path, tool).await?,
                None => None,
            };
            known.push((path, name));
        }
        names::refuse_twins(refs, &known)
    }

    async fn resolve(&self, context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool> {
        let budget = &Budget::whole();
        let asked = refs.iter().enumerate().map(|(index, tool)| async move {
            match self.kind_of(tool) {
                Some(kind) => kind.resolve(context, (index, tool), budget).await,
                None => Vec::new(),
            }
        });
        let mut tools: Vec<ServerTool> = join_all(asked).await.into_iter().flatten().collect();
        names::settle(refs, &mut tools);
        tools
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let wanted = tool.target.get("kind").and_then(Value::as_str);
        match self.kinds.iter().find(|kind| Some(kind.name()) == wanted) {
            Some(kind) => kind.call(context, tool, call, cancel).await,
            None => content::failure("This server cannot execute this tool."),
        }
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        self.installed.given(workspace).await
    }

    fn check_address(&self, url: &str) -> std::result::Result<(), String> {
        let checked = self.outbound.check(url);
        checked.map(drop).map_err(|error| error.to_string())
    }

    async fn fetch(
        &self,
        url: &str,
        most: usize,
        within: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        fetch::file(&self.outbound, url, most, within).await
    }
}
