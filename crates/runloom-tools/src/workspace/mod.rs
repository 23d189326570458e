//! `kind: "mantyx"`: tools of the workspace, by the id or slug of their definition.
//!
//! The definition is read at each call, so that runs hold no copy of it and a deleted tool stops working at once.

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::error::{Chain, Error, Result};
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext, plugin_tool};
use runloom_protocol::definition::{ToolAction, ToolDefinition};
use runloom_protocol::tools::ToolRef;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::definition::DefinitionExecutor;
use crate::listing_budget::ListingBudget;
use crate::tool_kind::{IndexedRef, ToolKind, ToolOrigin};
use crate::unavailable_tool;

const KIND: &str = "mantyx";

/// The workspace's own tools.
pub(crate) struct WorkspaceTools {
    executor: Arc<DefinitionExecutor>,
}

impl WorkspaceTools {
    /// Tools of the executor's definitions.
    pub(crate) fn new(executor: Arc<DefinitionExecutor>) -> Self {
        Self { executor }
    }

    /// The definition. If it renames a plugin's tool, the plugin's definition under that name.
    async fn find(&self, workspace: &str, id: &str) -> Result<Option<ToolDefinition>> {
        let definitions = &self.executor.definitions;
        let Some(definition) = definitions.tool(workspace, id).await? else {
            return Ok(None);
        };
        let ToolAction::Plugin(call) = &definition.action else {
            return Ok(Some(definition));
        };
        let Some(inner) = plugin_tool(&**definitions, workspace, &call.plugin).await? else {
            let message = format!("the plugin tool \"{}\" is not installed", call.plugin);
            return Err(Error::InvalidPlugin { message });
        };
        Ok(Some(renamed(definition, inner)))
    }
}

/// The plugin's definition with the workspace's name and overrides.
fn renamed(outer: ToolDefinition, inner: ToolDefinition) -> ToolDefinition {
    let description = match outer.description.is_empty() {
        true => inner.description.clone(),
        false => outer.description,
    };
    ToolDefinition {
        name: outer.name,
        description,
        effect: outer.effect.or(inner.effect),
        timeout_ms: outer.timeout_ms.or(inner.timeout_ms),
        ..inner
    }
}

#[async_trait]
impl ToolKind for WorkspaceTools {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>> {
        let ToolRef::Mantyx(tool) = tool else {
            return Ok(None);
        };
        let path = format!("{path}.id");
        match self.find(workspace, &tool.id).await? {
            Some(definition) => {
                self.executor.check(&path, &definition).await?;
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
        reference: IndexedRef<'_>,
        budget: &ListingBudget,
    ) -> Vec<ServerTool> {
        let ToolRef::Mantyx(tool) = reference.tool else {
            return Vec::new();
        };
        let origin = ToolOrigin {
            index: reference.index,
            target: json!({"kind": KIND, "id": tool.id}),
        };
        let find = || self.find(&context.workspace, &tool.id);
        let found = unavailable_tool::retry_while_unavailable(find);
        let reason = match found.await {
            Ok(Some(definition)) => {
                let exposing = self
                    .executor
                    .expose(context, &definition, origin.clone(), budget);
                match exposing.await {
                    Some(tool) => return vec![tool],
                    None => unavailable_tool::UNUSABLE_DEFINITION,
                }
            }
            Ok(None) => {
                tracing::info!(tool = tool.id, "tool was deleted before its run began");
                "it is no longer in this workspace"
            }
            Err(error) => {
                tracing::warn!(tool = tool.id, error = %Chain(&error), "tool definition cannot be read");
                "its definition could not be read"
            }
        };
        vec![unavailable_tool::tool_placeholder(&tool.id, origin, reason)]
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
        let id = tool.target.get("id").and_then(|id| id.as_str());
        match self.find(&context.workspace, id.unwrap_or_default()).await {
            Ok(Some(definition)) => {
                let calling = self.executor.call(context, &definition, call, cancel);
                calling.await
            }
            Ok(None) => content::failure("The tool is no longer in this workspace."),
            Err(error) => {
                tracing::warn!(tool = id, error = %Chain(&error), "tool definition cannot be read");
                content::failure("The tool's definition cannot be read.")
            }
        }
    }
}
