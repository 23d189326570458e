//! `kind: "mantyx"`: tools of the workspace, by the id or slug of their definition.
//!
//! The definition is asked for anew at each call, so that a run never carries a copy of it, and a deleted tool is gone at once.

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::error::{Chain, Error, Result};
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::definition::{ToolAction, ToolDefinition};
use runloom_protocol::tools::ToolRef;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::absent;
use crate::action::Actions;
use crate::budget::Budget;
use crate::content;
use crate::kind::Kind;

/// The workspace's own tools.
pub(crate) struct WorkspaceTools {
    actions: Arc<Actions>,
}

impl WorkspaceTools {
    /// Tools that the actions' definitions know.
    pub(crate) fn new(actions: Arc<Actions>) -> Self {
        Self { actions }
    }

    /// The definition; a plugin's tool under a name of the workspace's own is the plugin's definition with that name.
    async fn find(&self, workspace: &str, id: &str) -> Result<Option<ToolDefinition>> {
        let definitions = &self.actions.definitions;
        let Some(definition) = definitions.tool(workspace, id).await? else {
            return Ok(None);
        };
        let ToolAction::Plugin(call) = &definition.action else {
            return Ok(Some(definition));
        };
        let Some(inner) = definitions.plugin_tool(workspace, &call.plugin).await? else {
            let message = format!("the plugin tool \"{}\" is not installed", call.plugin);
            return Err(Error::InvalidPlugin { message });
        };
        Ok(Some(under_its_own_name(definition, inner)))
    }
}

fn under_its_own_name(outer: ToolDefinition, inner: ToolDefinition) -> ToolDefinition {
    let described = |text: String, other| if text.is_empty() { other } else { text };
    ToolDefinition {
        name: outer.name,
        description: described(outer.description, inner.description),
        effect: outer.effect.or(inner.effect),
        timeout_ms: outer.timeout_ms.or(inner.timeout_ms),
        ..inner
    }
}

#[async_trait]
impl Kind for WorkspaceTools {
    fn name(&self) -> &'static str {
        "mantyx"
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::Mantyx(_))
    }

    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::Mantyx(tool) = tool else {
            return Ok(None);
        };
        let path = format!("{path}.id");
        match self.find(workspace, &tool.id).await? {
            Some(definition) => {
                self.actions.check(&path, &definition).await?;
                Ok(Some(definition.name))
            }
            None => Err(Error::invalid(
                path,
                format!("there is no tool \"{}\" in this workspace", tool.id),
            )),
        }
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        (from, tool): (usize, &ToolRef),
        budget: &Budget,
    ) -> Vec<ServerTool> {
        let ToolRef::Mantyx(tool) = tool else {
            return Vec::new();
        };
        let place = (from, json!({"kind": "mantyx", "id": tool.id}));
        let found = absent::insist(|| self.find(&context.workspace, &tool.id));
        let why = match found.await {
            Ok(Some(definition)) => {
                let offering =
                    self.actions
                        .offer(&context.workspace, &definition, place.clone(), budget);
                match offering.await {
                    Some(tool) => return vec![tool],
                    None => absent::UNUSABLE,
                }
            }
            Ok(None) => {
                tracing::info!(tool = tool.id, "a tool was deleted before its run began");
                "it is no longer in this workspace"
            }
            Err(error) => {
                tracing::warn!(tool = tool.id, error = %Chain(&error), "a tool's definition cannot be read");
                "its definition could not be read"
            }
        };
        vec![absent::stub_of_tool(&tool.id, place, why)]
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
        let id = tool.target.get("id").and_then(|id| id.as_str());
        match self.find(&context.workspace, id.unwrap_or_default()).await {
            Ok(Some(definition)) => {
                let calling = self
                    .actions
                    .call(&context.workspace, &definition, call, cancel);
                calling.await
            }
            Ok(None) => content::failure("The tool is no longer in this workspace."),
            Err(error) => {
                tracing::warn!(tool = id, error = %Chain(&error), "a tool's definition cannot be read");
                content::failure("The tool's definition cannot be read.")
            }
        }
    }
}
