//! What a kind of tool must do to be in the host's table.

use async_trait::async_trait;
use runloom_ports::error::Result;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::ToolRef;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;

/// One kind of server-resolved tools. The contract is that of [`runloom_ports::tools::ToolHost`], for one ref.
#[async_trait]
pub(crate) trait Kind: Send + Sync {
    /// The word in the refs' `kind` and in the targets' `kind`.
    fn name(&self) -> &'static str;

    /// Whether the ref is of this kind.
    fn takes(&self, tool: &ToolRef) -> bool;

    /// Refuses a ref that can never work; `path` is its place in the spec. Makes no connection. Answers with the model-facing name,
    /// as far as it is known before a peer is asked.
    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>>;

    /// What the ref exposes; what a peer lists is taken from the run's budget. Ends within its own deadline; names need not be valid or
    /// unique yet.
    async fn resolve(
        &self,
        context: &ToolContext,
        place: (usize, &ToolRef),
        budget: &Budget,
    ) -> Vec<ServerTool>;

    /// Executes one call. `tool.from` names the ref.
    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome;
}
