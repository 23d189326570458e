//! `kind: "mantyx_plugin"`: tools of installed plugins, by `@plugin/tool` or, of plugins that are global, by their bare names.
//!
//! `installed` says which plugins a workspace has, `shipped` are those that come with the server. How a tool is carried out is the
//! business of `action`, as with workspace tools. Manifests are read anew for each call: a plugin that is removed is gone at once.

mod installed;
mod shipped;

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

use crate::absent;
use crate::action::Actions;
use crate::budget::Budget;
use crate::content;
use crate::kind::Kind;

pub(crate) use installed::Installed;
pub use installed::{ConfiguredPlugin, PluginSet, shipped_tools};
pub(crate) use shipped::Shipped;

const KIND: &str = "mantyx_plugin";

/// Tools of plugins.
pub(crate) struct Plugins {
    installed: Arc<Installed>,
    actions: Arc<Actions>,
}

/// What a ref leads to.
enum Found {
    Tool(Box<ToolDefinition>),
    Server(PluginServer),
}

impl Plugins {
    /// Tools of the plugins that are installed.
    pub(crate) fn new(installed: Arc<Installed>, actions: Arc<Actions>) -> Self {
        Self { installed, actions }
    }

    async fn find(&self, workspace: &str, name: &str) -> Result<Option<Found>> {
        let plugins = self.installed.plugins(workspace).await?;
        Ok(plugins
            .iter()
            .find_map(|plugin| plugin.find(name))
            .map(|found| match found {
                PluginMatch::Tool(tool) => Found::Tool(tool),
                PluginMatch::Server(server) => Found::Server(server.clone()),
            }))
    }

    async fn expose_server(
        &self,
        context: &ToolContext,
        (from, budget): (usize, &Budget),
        (name, server): (&str, &PluginServer),
    ) -> Vec<ServerTool> {
        let exposed = self
            .actions
            .expose_server(&context.workspace, server, (from, budget));
        match exposed.await {
            Ok(mut tools) => {
                for tool in &mut tools {
                    let own = tool.target.get("tool").cloned().unwrap_or_default();
                    tool.target = json!({"kind": KIND, "name": name, "tool": own});
                }
                tools
            }
            Err(why) => {
                tracing::info!(
                    server = name,
                    why,
                    "an MCP server of a plugin is unavailable"
                );
                vec![stub(from, name, &server.name, &why)]
            }
        }
    }

    /// The definition that a resolved tool was made from, as it is now.
    async fn definition(&self, workspace: &str, target: &Value) -> Result<Option<ToolDefinition>> {
        let name = target
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let own = target.get("tool").and_then(Value::as_str);
        Ok(match (self.find(workspace, name).await?, own) {
            (Some(Found::Tool(tool)), None) => Some(*tool),
            (Some(Found::Server(server)), Some(own)) => Some(server.tool(own)),
            _ => None,
        })
    }
}

#[async_trait]
impl Kind for Plugins {
    fn name(&self) -> &'static str {
        KIND
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::MantyxPlugin(_))
    }

    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::MantyxPlugin(tool) = tool else {
            return Ok(None);
        };
        match self.find(workspace, &tool.name).await? {
            Some(Found::Tool(found)) => {
                self.actions.check(&format!("{path}.name"), &found).await?;
                Ok(Some(found.name))
            }
            Some(Found::Server(server)) => {
                let any = server.tool(&server.name);
                self.actions.check(&format!("{path}.name"), &any).await?;
                Ok(None)
            }
            None => {
                let plugins = self.installed.plugins(workspace).await?;
                let message = missing(&tool.name, &plugins);
                Err(Error::InvalidPlugin { message })
            }
        }
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        (from, tool): (usize, &ToolRef),
        budget: &Budget,
    ) -> Vec<ServerTool> {
        let ToolRef::MantyxPlugin(tool) = tool else {
            return Vec::new();
        };
        let workspace = &context.workspace;
        let place = (from, json!({"kind": KIND, "name": tool.name}));
        let found = absent::insist(|| self.find(workspace, &tool.name));
        let why = match found.await {
            Ok(Some(Found::Tool(definition))) => {
                let offering = self
                    .actions
                    .offer(workspace, &definition, place.clone(), budget);
                match offering.await {
                    Some(tool) => return vec![tool],
                    None => absent::UNUSABLE,
                }
            }
            Ok(Some(Found::Server(server))) => {
                let named = (tool.name.as_str(), &server);
                return self.expose_server(context, (from, budget), named).await;
            }
            Ok(None) => {
                tracing::info!(
                    tool = tool.name,
                    "a plugin was removed before its run began"
                );
                "its plugin is no longer installed"
            }
            Err(error) => {
                tracing::warn!(tool = tool.name, error = %Chain(&error), "the plugins cannot be read");
                "the plugins could not be read"
            }
        };
        vec![absent::stub_of_tool(&tool.name, place, why)]
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        if let Some(outcome) = absent::called(tool) {
            return outcome;
        }
        match self.definition(&context.workspace, &tool.target).await {
            Ok(Some(definition)) => {
                let calling = self
                    .actions
                    .call(&context.workspace, &definition, call, cancel);
                calling.await
            }
            Ok(None) => content::failure("The plugin is no longer installed."),
            Err(error) => {
                tracing::warn!(tool = tool.name, error = %Chain(&error), "the plugins cannot be read");
                content::failure("The plugin's manifest cannot be read.")
            }
        }
    }
}

/// What stands in for a server that cannot be reached.
fn stub(from: usize, name: &str, server: &str, why: &str) -> ServerTool {
    let description = format!(
        "The MCP server \"{name}\" is unavailable, so that none of its tools can be used. Calling this tool says why."
    );
    let place = (from, json!({"kind": KIND, "name": name}));
    absent::stub(server, description, place, why)
}

/// Says what is missing, and what there is instead.
fn missing(name: &str, plugins: &[PluginManifest]) -> String {
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
