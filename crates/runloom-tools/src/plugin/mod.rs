//! `kind: "mantyx_plugin"`: tools of installed plugins, by `@plugin/tool` or, for global plugins, by their bare names.
//!
//! `catalog` lists the plugins of a workspace, `shipped` has those that ship with the server, and `definition`
//! executes the tools. Manifests are read at each call, so that a removed plugin stops working at once.

mod catalog;

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::error::{Chain, Error, Result};
use runloom_ports::tools::{
    Invocation, Outcome, PluginManifest, ServerTool, ToolContext, ToolDefinition,
    ToolDefinitions as _,
};
use runloom_protocol::definition::{PluginMatch, PluginServer};
use runloom_protocol::tools::ToolRef;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::definition::DefinitionExecutor;
use crate::listing_budget::ListingBudget;
use crate::tool_kind::{IndexedRef, ToolKind, ToolOrigin};
use crate::unavailable_tool;

pub(crate) use catalog::PluginCatalog;
pub use catalog::{ConfiguredPlugin, PluginSet, shipped_tools};

const KIND: &str = "mantyx_plugin";

/// Tools of plugins.
pub(crate) struct PluginTools {
    catalog: Arc<PluginCatalog>,
    executor: Arc<DefinitionExecutor>,
}

/// The target of a ref.
enum PluginTarget {
    Tool(Box<ToolDefinition>),
    Server(PluginServer),
}

impl PluginTools {
    /// Tools of the plugins in the catalog.
    pub(crate) fn new(catalog: Arc<PluginCatalog>, executor: Arc<DefinitionExecutor>) -> Self {
        Self { catalog, executor }
    }

    async fn find(&self, workspace: &str, name: &str) -> Result<Option<PluginTarget>> {
        let plugins = self.catalog.plugins(workspace).await?;
        Ok(plugins
            .iter()
            .find_map(|plugin| plugin.find(name))
            .map(|found| match found {
                PluginMatch::Tool(tool) => PluginTarget::Tool(tool),
                PluginMatch::Server(server) => PluginTarget::Server(server.clone()),
            }))
    }

    /// The tools of a plugin's MCP server, or a placeholder. `origin.target` names the ref.
    async fn expose_server(
        &self,
        context: &ToolContext,
        server: &PluginServer,
        origin: ToolOrigin,
        budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let exposing = self
            .executor
            .expose_server(context, server, origin.index, budget);
        match exposing.await {
            Ok(mut tools) => {
                for tool in &mut tools {
                    let mut target = origin.target.clone();
                    target["tool"] = tool.target.get("tool").cloned().unwrap_or_default();
                    tool.target = target;
                }
                tools
            }
            Err(reason) => {
                let name = origin.target["name"].as_str().unwrap_or_default();
                tracing::info!(server = name, reason, "MCP server of a plugin unavailable");
                vec![server_placeholder(&server.name, origin, &reason)]
            }
        }
    }

    /// The current definition of a resolved tool.
    async fn definition(&self, workspace: &str, target: &Value) -> Result<Option<ToolDefinition>> {
        let name = target
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let own = target.get("tool").and_then(Value::as_str);
        Ok(match (self.find(workspace, name).await?, own) {
            (Some(PluginTarget::Tool(tool)), None) => Some(*tool),
            (Some(PluginTarget::Server(server)), Some(own)) => Some(server.tool(own)),
            (Some(PluginTarget::Tool(_)), Some(_)) | (Some(PluginTarget::Server(_)), None) => None,
            (None, _) => None,
        })
    }
}

#[async_trait]
impl ToolKind for PluginTools {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::MantyxPlugin(tool) = tool else {
            return Ok(None);
        };
        match self.find(workspace, &tool.name).await? {
            Some(PluginTarget::Tool(found)) => {
                self.executor.check(&format!("{path}.name"), &found).await?;
                Ok(Some(found.name))
            }
            Some(PluginTarget::Server(server)) => {
                let any = server.tool(&server.name);
                self.executor.check(&format!("{path}.name"), &any).await?;
                Ok(None)
            }
            None => {
                let plugins = self.catalog.plugins(workspace).await?;
                let message = not_installed(&tool.name, &plugins);
                Err(Error::InvalidPlugin { message })
            }
        }
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        reference: IndexedRef<'_>,
        budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let ToolRef::MantyxPlugin(tool) = reference.tool else {
            return Vec::new();
        };
        let workspace = &context.workspace;
        let origin = ToolOrigin {
            index: reference.index,
            target: json!({"kind": KIND, "name": tool.name}),
        };
        let find = || self.find(workspace, &tool.name);
        let found = unavailable_tool::retry_while_unavailable(find);
        let reason = match found.await {
            Ok(Some(PluginTarget::Tool(definition))) => {
                let exposing = self
                    .executor
                    .expose(context, &definition, origin.clone(), budget);
                match exposing.await {
                    Some(tool) => return vec![tool],
                    None => unavailable_tool::UNUSABLE_DEFINITION,
                }
            }
            Ok(Some(PluginTarget::Server(server))) => {
                return self.expose_server(context, &server, origin, budget).await;
            }
            Ok(None) => {
                tracing::info!(tool = tool.name, "plugin was removed before its run began");
                "its plugin is no longer installed"
            }
            Err(error) => {
                tracing::warn!(tool = tool.name, error = %Chain(&error), "plugins cannot be read");
                "the plugins could not be read"
            }
        };
        vec![unavailable_tool::tool_placeholder(
            &tool.name, origin, reason,
        )]
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        if let Some(outcome) = unavailable_tool::call_placeholder(tool) {
            return outcome;
        }
        match self.definition(&context.workspace, &tool.target).await {
            Ok(Some(definition)) => {
                let calling = self.executor.call(context, &definition, call, cancel);
                calling.await
            }
            Ok(None) => content::failure("The plugin is no longer installed."),
            Err(error) => {
                tracing::warn!(tool = tool.name, error = %Chain(&error), "plugins cannot be read");
                content::failure("The plugin's manifest cannot be read.")
            }
        }
    }
}

/// A placeholder for the tools of a server that cannot be reached.
fn server_placeholder(server: &str, origin: ToolOrigin, reason: &str) -> ServerTool {
    let name = origin.target["name"].as_str().unwrap_or_default();
    let description = format!(
        "The MCP server \"{name}\" is unavailable, so none of its tools can be used. Calling this tool returns the reason."
    );
    unavailable_tool::placeholder(server, description, origin, reason)
}

/// The message for an unknown plugin tool, with the installed alternatives.
fn not_installed(name: &str, plugins: &[PluginManifest]) -> String {
    let plugin = name.split('/').next().unwrap_or_default();
    let Some(manifest) = plugins.iter().find(|known| known.name == plugin) else {
        let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        return format!(
            "the plugin tool \"{name}\" is not installed; installed plugins are: {}",
            names.join(", ")
        );
    };
    let tools = manifest.tools.iter().map(|tool| tool.name.as_str());
    let servers = manifest.servers.iter().map(|server| server.name.as_str());
    let names: Vec<&str> = tools.chain(servers).collect();
    format!(
        "the plugin tool \"{name}\" is not installed; {plugin} has: {}",
        names.join(", ")
    )
}
