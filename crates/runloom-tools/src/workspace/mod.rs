//! `kind: "mantyx"`: tools of the workspace. None can be defined yet, so that every ref is refused.

use async_trait::async_trait;
use runloom_core::error::{Error, Result};
use runloom_core::ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::ToolRef;
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::kind::Kind;

/// The workspace's own tools.
pub(crate) struct WorkspaceTools;

#[async_trait]
impl Kind for WorkspaceTools {
    fn name(&self) -> &'static str {
        "mantyx"
    }

    fn takes(&self, tool: &ToolRef) -> bool {
        matches!(tool, ToolRef::Mantyx(_))
    }

    async fn check(&self, _workspace: &str, path: &str, tool: &ToolRef) -> Result<()> {
        match tool {
            ToolRef::Mantyx(tool) => Err(Error::invalid(
                format!("{path}.id"),
                format!("there is no tool \"{}\" in this workspace", tool.id),
            )),
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
        content::failure("The tool is no longer in this workspace.")
    }
}
