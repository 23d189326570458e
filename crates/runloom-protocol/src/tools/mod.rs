//! Tool refs: the tools of a spec, by kind. Each kind has a file with its type and its checks.

mod a2a;
mod annotations;
mod delegate;
mod local;
mod mcp;
mod plugin;
mod project;
mod toolset;
mod workspace;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::names::Names;
use crate::limits;
use crate::read::{Fields, Node, keywords};

pub use a2a::{A2aLocalTool, A2aTool};
pub use annotations::ToolAnnotations;
pub use delegate::{DelegateRef, DelegateSource};
pub use local::LocalTool;
pub use mcp::{McpLocalTool, McpTool, McpToolEntry, SessionScope};
pub use plugin::PluginToolRef;
pub use project::{ActionPattern, PROJECT_TOOL, ProjectToolRef, is_project_name};
pub use toolset::ToolsetRef;
pub use workspace::WorkspaceToolRef;

/// A JSON object kept as the client wrote it.
pub type Object = Map<String, Value>;

/// A tool that the model can call; `kind` says who executes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolRef {
    /// A tool of the workspace, which the server executes.
    Mantyx(WorkspaceToolRef),
    /// A tool of an installed plugin, which the server executes.
    MantyxPlugin(PluginToolRef),
    /// A function that the client executes.
    Local(LocalTool),
    /// A remote agent that the server calls.
    A2a(A2aTool),
    /// A remote agent that the client calls.
    A2aLocal(A2aLocalTool),
    /// An MCP server that the server connects to.
    Mcp(McpTool),
    /// An MCP server that the client is connected to.
    McpLocal(McpLocalTool),
    /// Another agent, whose runs the server starts.
    Delegate(DelegateRef),
    /// A toolset of the workspace; the server runs its tools.
    Toolset(ToolsetRef),
    /// The project of the workspace; the server runs its actions.
    Project(ProjectToolRef),
}

keywords! {
    /// The kinds of [`ToolRef`].
    pub enum ToolRefKind {
        /// See [`ToolRef::Mantyx`].
        Mantyx = "mantyx",
        /// See [`ToolRef::MantyxPlugin`].
        MantyxPlugin = "mantyx_plugin",
        /// See [`ToolRef::Local`].
        Local = "local",
        /// See [`ToolRef::A2a`].
        A2a = "a2a",
        /// See [`ToolRef::A2aLocal`].
        A2aLocal = "a2a_local",
        /// See [`ToolRef::Mcp`].
        Mcp = "mcp",
        /// See [`ToolRef::McpLocal`].
        McpLocal = "mcp_local",
        /// See [`ToolRef::Delegate`].
        Delegate = "delegate",
        /// See [`ToolRef::Toolset`].
        Toolset = "toolset",
        /// See [`ToolRef::Project`].
        Project = "project",
    }
}

impl ToolRef {
    /// The kind of the ref.
    #[must_use]
    pub fn kind(&self) -> ToolRefKind {
        match self {
            Self::Mantyx(_) => ToolRefKind::Mantyx,
            Self::MantyxPlugin(_) => ToolRefKind::MantyxPlugin,
            Self::Local(_) => ToolRefKind::Local,
            Self::A2a(_) => ToolRefKind::A2a,
            Self::A2aLocal(_) => ToolRefKind::A2aLocal,
            Self::Mcp(_) => ToolRefKind::Mcp,
            Self::McpLocal(_) => ToolRefKind::McpLocal,
            Self::Delegate(_) => ToolRefKind::Delegate,
            Self::Toolset(_) => ToolRefKind::Toolset,
            Self::Project(_) => ToolRefKind::Project,
        }
    }

    /// The tool, when the client executes it.
    #[must_use]
    pub fn client_tool(&self) -> Option<ClientTool<'_>> {
        match self {
            Self::Local(tool) => Some(ClientTool::Local(tool)),
            Self::A2aLocal(tool) => Some(ClientTool::A2aLocal(tool)),
            Self::McpLocal(server) => Some(ClientTool::McpLocal(server)),
            Self::Mantyx(_)
            | Self::MantyxPlugin(_)
            | Self::A2a(_)
            | Self::Mcp(_)
            | Self::Delegate(_)
            | Self::Toolset(_)
            | Self::Project(_) => None,
        }
    }

    /// Whether the server asks a peer what tools there are. The client's tools and delegates are known from the ref
    /// alone.
    #[must_use]
    pub fn is_server_resolved(&self) -> bool {
        self.client_tool().is_none() && self.delegate().is_none()
    }

    /// The delegate, when it is one.
    #[must_use]
    pub fn delegate(&self) -> Option<&DelegateRef> {
        match self {
            Self::Delegate(delegate) => Some(delegate),
            Self::Mantyx(_)
            | Self::MantyxPlugin(_)
            | Self::Local(_)
            | Self::A2a(_)
            | Self::A2aLocal(_)
            | Self::Mcp(_)
            | Self::McpLocal(_)
            | Self::Toolset(_)
            | Self::Project(_) => None,
        }
    }

    /// The headers that it sends to its peer; their values are secrets.
    #[must_use]
    pub fn headers(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::A2a(tool) => Some(&tool.headers),
            Self::Mcp(tool) => Some(&tool.headers),
            Self::Mantyx(_)
            | Self::MantyxPlugin(_)
            | Self::Local(_)
            | Self::A2aLocal(_)
            | Self::McpLocal(_)
            | Self::Delegate(_)
            | Self::Toolset(_)
            | Self::Project(_) => None,
        }
    }

    /// As [`Self::headers`], to fill in secrets.
    pub fn headers_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        match self {
            Self::A2a(tool) => Some(&mut tool.headers),
            Self::Mcp(tool) => Some(&mut tool.headers),
            Self::Mantyx(_)
            | Self::MantyxPlugin(_)
            | Self::Local(_)
            | Self::A2aLocal(_)
            | Self::McpLocal(_)
            | Self::Delegate(_)
            | Self::Toolset(_)
            | Self::Project(_) => None,
        }
    }

    /// What tells the ref from the others of its agent: a ref of a request replaces the agent's ref with the same
    /// identity.
    #[must_use]
    pub fn identity(&self) -> ToolIdentity<'_> {
        match self {
            Self::Mantyx(tool) => ToolIdentity::WorkspaceTool(&tool.id),
            Self::Mcp(server) => ToolIdentity::McpPrefix(&server.name),
            Self::McpLocal(server) => ToolIdentity::McpLabel(&server.name),
            Self::MantyxPlugin(tool) => ToolIdentity::ModelFacing(&tool.name),
            Self::Local(tool) => ToolIdentity::ModelFacing(&tool.name),
            Self::A2a(tool) => ToolIdentity::ModelFacing(&tool.name),
            Self::A2aLocal(tool) => ToolIdentity::ModelFacing(&tool.name),
            Self::Delegate(delegate) => ToolIdentity::ModelFacing(&delegate.name),
            Self::Toolset(toolset) => ToolIdentity::Toolset(&toolset.name),
            Self::Project(_) => ToolIdentity::ModelFacing(PROJECT_TOOL),
        }
    }
}

/// What tells a [`ToolRef`] from others. Names of different kinds never collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolIdentity<'t> {
    /// The id or slug of a workspace tool.
    WorkspaceTool(&'t str),
    /// The prefix of an MCP server that the server connects to.
    McpPrefix(&'t str),
    /// The label of an MCP server that the client is connected to.
    McpLabel(&'t str),
    /// A model-facing name.
    ModelFacing(&'t str),
    /// The slug or id of a toolset.
    Toolset(&'t str),
}

/// A [`ToolRef`] that the client executes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClientTool<'t> {
    /// A function.
    Local(&'t LocalTool),
    /// A remote agent.
    A2aLocal(&'t A2aLocalTool),
    /// An MCP server.
    McpLocal(&'t McpLocalTool),
}

impl<'t> ClientTool<'t> {
    /// The `name` of the ref.
    #[must_use]
    pub fn name(self) -> &'t str {
        match self {
            Self::Local(tool) => &tool.name,
            Self::A2aLocal(tool) => &tool.name,
            Self::McpLocal(server) => &server.name,
        }
    }

    /// The model-facing names.
    #[must_use]
    pub fn model_facing_names(self) -> Vec<Cow<'t, str>> {
        match self {
            Self::Local(tool) => vec![Cow::Borrowed(&tool.name)],
            Self::A2aLocal(tool) => vec![Cow::Borrowed(&tool.name)],
            Self::McpLocal(server) => server.tools.iter().map(McpToolEntry::model_name).collect(),
        }
    }
}

/// The `tools` of a spec in the client's order; `None` when the field is absent.
pub(crate) fn read(fields: &Fields<'_, '_>) -> Option<Vec<ToolRef>> {
    let mut names = Names::default();
    let tools = fields.list("tools", limits::TOOLS_MAX, |node| {
        read_ref(node, &mut names, 0)
    })?;
    let (max, mut refs) = (limits::TOOLS_MAX, 0);
    visit(&tools, "", &mut |_, _| refs += 1);
    if refs > max {
        let message = format!("a spec may have {max} refs, all levels together, got {refs}");
        fields.refuse("tools", message);
    }
    Some(tools)
}

/// Calls `see` with every ref of a list and of the delegates in it, each with its path: `tools[0].tools[1]`. `path`
/// stands before `tools`.
pub fn visit(tools: &[ToolRef], path: &str, see: &mut dyn FnMut(&str, &ToolRef)) {
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("{path}tools[{index}]");
        see(&path, tool);
        if let Some(inner) = tool.delegate().and_then(|delegate| delegate.tools.as_ref()) {
            visit(inner, &format!("{path}."), see);
        }
    }
}

/// As [`visit`], to change the refs.
pub fn visit_mut(tools: &mut [ToolRef], path: &str, see: &mut dyn FnMut(&str, &mut ToolRef)) {
    for (index, tool) in tools.iter_mut().enumerate() {
        let path = format!("{path}tools[{index}]");
        see(&path, tool);
        if let ToolRef::Delegate(delegate) = tool
            && let Some(inner) = &mut delegate.tools
        {
            visit_mut(inner, &format!("{path}."), see);
        }
    }
}

/// `level`: how many delegates the ref is inside of.
fn read_ref<'v>(node: Node<'v, '_>, names: &mut Names<'v>, level: usize) -> Option<ToolRef> {
    let fields = node.fields()?;
    match fields.require("kind")?.keyword()? {
        ToolRefKind::Mantyx => WorkspaceToolRef::read(&fields, names).map(ToolRef::Mantyx),
        ToolRefKind::MantyxPlugin => PluginToolRef::read(&fields, names).map(ToolRef::MantyxPlugin),
        ToolRefKind::Local => LocalTool::read(&fields, names).map(ToolRef::Local),
        ToolRefKind::A2a => A2aTool::read(&fields, names).map(ToolRef::A2a),
        ToolRefKind::A2aLocal => A2aLocalTool::read(&fields, names).map(ToolRef::A2aLocal),
        ToolRefKind::Mcp => McpTool::read(&fields, names).map(ToolRef::Mcp),
        ToolRefKind::McpLocal => McpLocalTool::read(&fields, names).map(ToolRef::McpLocal),
        ToolRefKind::Delegate => {
            DelegateRef::read(&fields, names, level + 1).map(ToolRef::Delegate)
        }
        ToolRefKind::Toolset => ToolsetRef::read(&fields, names).map(ToolRef::Toolset),
        ToolRefKind::Project => ProjectToolRef::read(&fields, names).map(ToolRef::Project),
    }
}
