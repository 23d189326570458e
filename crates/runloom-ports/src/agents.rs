//! The agents port: persisted agents that delegates name.

use async_trait::async_trait;
use runloom_protocol::definition::AgentDefinition;
use runloom_protocol::id::AgentId;

use crate::error::Result;

/// Looks persisted agents up.
#[async_trait]
pub trait Agents: Send + Sync + std::fmt::Debug {
    /// An agent of a workspace, as it is now; `None` when there is no such agent.
    ///
    /// # Errors
    /// When the store fails.
    async fn agent(&self, workspace: &str, id: &AgentId) -> Result<Option<FoundAgent>>;
}

/// An agent that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundAgent {
    /// What it is.
    pub definition: AgentDefinition,
    /// Which version.
    pub version: u64,
}

/// A server without persisted agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAgents;

#[async_trait]
impl Agents for NoAgents {
    async fn agent(&self, _workspace: &str, _id: &AgentId) -> Result<Option<FoundAgent>> {
        Ok(None)
    }
}
