//! The interface of a tool kind: one implementation per folder, listed in `host`.

use async_trait::async_trait;
use runloom_ports::error::Result;
use runloom_ports::tools::{Invocation, Outcome, ServerTool, ToolContext};
use runloom_protocol::tools::ToolRef;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::listing_budget::ListingBudget;

/// One kind of server-resolved tools. The contract is that of [`runloom_ports::tools::ToolHost`], for one ref.
#[async_trait]
pub(crate) trait ToolKind: Send + Sync {
    /// The `kind` of the refs and of the resolved tools' targets.
    fn name(&self) -> &'static str;

    /// Refuses a ref that can never work, without connecting. Returns the model-facing name, if it is known before a
    /// peer is asked.
    async fn check(&self, workspace: &str, path: &str, tool: &ToolRef) -> Result<Option<String>>;

    /// The tools that a ref exposes. Tools listed by a peer count against `budget`. Ends within the kind's own
    /// deadline; names need not be valid or unique yet.
    async fn resolve(
        &self,
        context: &ToolContext,
        reference: IndexedRef<'_>,
        budget: &ListingBudget,
    ) -> Vec<ServerTool>;

    /// Executes one call. `tool.from` is the index of the ref.
    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome;
}

/// A ref and its index in the spec's `tools`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedRef<'a> {
    pub(crate) index: usize,
    pub(crate) tool: &'a ToolRef,
}

/// The ref that a resolved tool comes from, and the target that leads back to its definition.
#[derive(Debug, Clone)]
pub(crate) struct ToolOrigin {
    pub(crate) index: usize,
    pub(crate) target: Value,
}
