//! The agents port: persisted agents that delegates name.

use async_trait::async_trait;
use runloom_protocol::definition::AgentDefinition;
use runloom_protocol::id::AgentId;

use crate::error::Result;

/// Reads stored agents.
#[async_trait]
pub trait Agents: Send + Sync + std::fmt::Debug {
    /// The current version of an agent; `None` when the workspace has no such agent.
    ///
    /// # Errors
    /// When the store fails.
    async fn agent(&self, workspace: &str, id: &AgentId) -> Result<Option<FoundAgent>>;
}

/// An agent that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundAgent {
    /// Its definition.
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
