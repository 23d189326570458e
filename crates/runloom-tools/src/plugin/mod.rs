//! `kind: "mantyx_plugin"`: tools of installed plugins. None can be installed yet, so that every ref is refused.

use async_trait::async_trait;
use runloom_core::error::{Error, Result};
use runloom_core::ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::ToolRef;
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::kind::Kind;

/// Tools of plugins.
pub(crate) struct Plugins;

#[async_trait]
impl Kind for Plugins {
    fn name(&self) -> &'static str {
        "mantyx_plugin"
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::MantyxPlugin(_))
    }

    async fn check(&self, _workspace: &str, _path: &str, tool: &ToolRef) -> Result<()> {
        match tool {
            ToolRef::MantyxPlugin(tool) => Err(Error::InvalidPlugin {
                message: format!("the plugin tool \"{}\" is not installed", tool.name),
            }),
            _ => Ok(()),
        }
    }

    async fn resolve(&self, _: &ToolContext, _: usize, _: &ToolRef) -> Vec<ServerTool> {
        Vec::new()
    }

    async fn call(
        &self,
        _: &ToolContext,
        _: &ServerTool,
        _: Invocation,
        _: CancellationToken,
    ) -> Outcome {
        content::failure("The plugin is no longer installed.")
    }
}
