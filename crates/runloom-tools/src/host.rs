//! The tool host: the table of tool kinds.

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
use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::a2a::A2a;
use crate::code::{Sandbox, SandboxProgram};
use crate::content;
use crate::definition::DefinitionExecutor;
use crate::fetch::fetch_file;
use crate::http::HttpTools;
use crate::listing_budget::ListingBudget;
use crate::mcp::Mcp;
use crate::names::{self, NamedRef};
use crate::outbound::Outbound;
use crate::plugin::{PluginCatalog, PluginSet, PluginTools};
use crate::project_cli::{ProjectCli, ProjectParts};
use crate::shipped::ShippedTools;
use crate::tool_kind::{IndexedRef, ToolKind};
use crate::tool_limits::ToolLimits;
use crate::toolset::ToolsetTools;
use crate::workspace::WorkspaceTools;

/// Dependencies of a host.
pub struct HostParts {
    /// HTTP client of every connection.
    pub outbound: Outbound,
    /// Tool definitions, plugins and secrets of workspaces.
    pub definitions: Arc<dyn ToolDefinitions>,
    /// Plugins of the operator's configuration.
    pub plugins: PluginSet,
    /// Memories of workspaces; `None` removes the `@memory` plugin.
    pub memory: Option<Arc<dyn WorkspaceMemory>>,
    /// Program that runs code tools; `None` disables them.
    pub sandbox: Option<SandboxProgram>,
    /// The project tool; `None` disables it.
    pub project: Option<ProjectParts>,
    /// Timeouts and concurrency limits.
    pub limits: ToolLimits,
}

/// Resolves and executes server-resolved tools.
pub struct Host {
    kinds: KindTable,
    plugins: Arc<PluginCatalog>,
    outbound: Outbound,
}

/// One entry per kind of server-resolved tools.
struct KindTable {
    mcp: Arc<Mcp>,
    a2a: Arc<A2a>,
    workspace: WorkspaceTools,
    plugin: PluginTools,
    toolset: ToolsetTools,
    project: ProjectCli,
}

impl KindTable {
    /// The kind of a ref; `None` for tools that the client executes.
    fn of_ref(&self, tool: &ToolRef) -> Option<&dyn ToolKind> {
        match tool {
            ToolRef::Mcp(_) => Some(self.mcp.as_ref()),
            ToolRef::A2a(_) => Some(self.a2a.as_ref()),
            ToolRef::Mantyx(_) => Some(&self.workspace),
            ToolRef::MantyxPlugin(_) => Some(&self.plugin),
            ToolRef::Toolset(_) => Some(&self.toolset),
            ToolRef::Project(_) => Some(&self.project),
            ToolRef::Local(_)
            | ToolRef::A2aLocal(_)
            | ToolRef::McpLocal(_)
            | ToolRef::Delegate(_) => None,
        }
    }

    fn all(&self) -> [&dyn ToolKind; 6] {
        [
            self.mcp.as_ref(),
            self.a2a.as_ref(),
            &self.workspace,
            &self.plugin,
            &self.toolset,
            &self.project,
        ]
    }

    /// The kind that a resolved tool's target names.
    fn of_target(&self, target: &Value) -> Option<&dyn ToolKind> {
        let wanted = target.get("kind").and_then(Value::as_str);
        let mut kinds = self.all().into_iter();
        kinds.find(|kind| Some(kind.name()) == wanted)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.kinds.all().map(ToolKind::name);
        f.debug_struct("Host").field("kinds", &names).finish()
    }
}

impl Host {
    /// A host whose connections all go through `parts.outbound`. A background task closes idle connections.
    #[must_use]
    pub fn new(parts: HostParts, tasks: &Tasks) -> Self {
        let HostParts {
            outbound,
            definitions,
            plugins,
            memory,
            sandbox,
            project,
            limits,
        } = parts;
        let project = ProjectCli::new(project, Arc::clone(&definitions), tasks);
        let shipped = ShippedTools::new(outbound.clone(), memory);
        let plugins = Arc::new(PluginCatalog::new(definitions, plugins, &shipped));
        let mcp = Arc::new(Mcp::new(outbound.clone(), tasks, limits.clone()));
        let a2a = Arc::new(A2a::new(outbound.clone(), tasks.clone(), limits.clone()));
        let executor = Arc::new(DefinitionExecutor {
            definitions: Arc::clone(&plugins) as _,
            shipped,
            http: HttpTools::new(outbound.clone()),
            code: sandbox.map(|program| Sandbox::new(program, outbound.clone(), &limits)),
            outbound: outbound.clone(),
            mcp: Arc::clone(&mcp),
            a2a: Arc::clone(&a2a),
            schemas: Arc::default(),
        });
        let toolset = ToolsetTools::new(
            Arc::clone(&plugins) as _,
            outbound.clone(),
            Arc::clone(&mcp),
        );
        let kinds = KindTable {
            toolset,
            mcp,
            a2a,
            workspace: WorkspaceTools::new(Arc::clone(&executor)),
            plugin: PluginTools::new(Arc::clone(&plugins), executor),
            project,
        };
        Self {
            kinds,
            plugins,
            outbound,
        }
    }
}

#[async_trait]
impl ToolHost for Host {
    async fn check(&self, workspace: &str, refs: &[ToolRef]) -> Result<()> {
        let mut named = Vec::with_capacity(refs.len());
        for (index, tool) in refs.iter().enumerate() {
            let path = format!("tools[{index}]");
            let name = match self.kinds.of_ref(tool) {
                Some(kind) => kind.check(workspace, &path, tool).await?,
                None => None,
            };
            named.push(NamedRef { path, name });
        }
        names::check_duplicates(refs, &named)
    }

    async fn resolve(&self, context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool> {
        let budget = &ListingBudget::full();
        let resolving = refs.iter().enumerate().map(|(index, tool)| async move {
            let reference = IndexedRef { index, tool };
            match self.kinds.of_ref(tool) {
                Some(kind) => kind.resolve(context, reference, budget).await,
                None => Vec::new(),
            }
        });
        let resolved = join_all(resolving).await;
        let mut tools: Vec<ServerTool> = resolved.into_iter().flatten().collect();
        names::make_unique(refs, &mut tools);
        tools
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        match self.kinds.of_target(&tool.target) {
            Some(kind) => kind.call(context, tool, call, cancel).await,
            None => content::failure("This server cannot execute this tool."),
        }
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        self.plugins.provided(workspace).await
    }

    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>> {
        self.kinds.toolset.listed(workspace, name).await
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
        fetch_file(&self.outbound, url, most, within).await
    }
}
