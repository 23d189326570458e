//! Toolsets: named groups of tools.

mod delegate;
mod tool;

use std::sync::Arc;

use async_trait::async_trait;
use runloom_ports::effect::Effect;
use runloom_protocol::tools::ToolAnnotations;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use delegate::{DelegateOptions, PolicySetting, ToolsetExt};
pub use tool::Tool;
pub(crate) use tool::{Body, Delegate};

/// A named group of tools.
#[async_trait]
pub trait Toolset: Send + Sync {
    /// The name; the model sees each tool as `<name>_<tool>`.
    fn name(&self) -> &str;

    /// What the tools are for.
    fn description(&self) -> &str;

    /// The tools. Called when a run with this toolset starts, not before.
    ///
    /// # Errors
    /// When the tools cannot be listed. The model then gets one tool that says why.
    async fn list_tools(&self) -> Result<Vec<ToolInfo>, ToolError>;

    /// Calls a tool by its own name. `cancel` is cancelled when the run is cancelled or dropped.
    ///
    /// # Errors
    /// A failure that the model reads.
    async fn invoke(
        &self,
        tool: &str,
        input: Value,
        cancel: CancellationToken,
    ) -> Result<ToolOutput, ToolError>;

    /// Delegates in the toolset. Their names have no prefix.
    fn delegates(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Closes connections and processes. The toolset opens them again when it is used again.
    async fn aclose(&self) {}
}

/// A tool as it is offered to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// The tool's own name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// MCP annotations.
    pub annotations: Option<ToolAnnotations>,
    /// The effect of a call.
    pub effect: Effect,
}

/// The output of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    text: String,
}

impl ToolOutput {
    /// Plain text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// A JSON value, which the model reads as JSON text.
    #[must_use]
    pub fn from_json(value: &Value) -> Self {
        Self {
            text: value.to_string(),
        }
    }

    /// The text that the model reads.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A failure of a tool. The model reads the message and the run continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// A toolset of closures and delegates.
#[derive(Debug, Clone)]
pub struct StaticToolset {
    name: String,
    description: String,
    tools: Vec<Tool>,
}

impl StaticToolset {
    /// A toolset without tools.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            tools: Vec::new(),
        }
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// The toolset as agents share it.
    #[must_use]
    pub fn shared(self) -> Arc<dyn Toolset> {
        Arc::new(self)
    }
}

#[async_trait]
impl Toolset for StaticToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn list_tools(&self) -> Result<Vec<ToolInfo>, ToolError> {
        Ok(self.tools.iter().filter_map(Tool::info).collect())
    }

    async fn invoke(
        &self,
        tool: &str,
        input: Value,
        cancel: CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let found = self.tools.iter().find(|known| known.name() == tool);
        match found.map(|tool| &tool.body) {
            Some(Body::Closure(closure)) => (closure.handler)(input, cancel).await,
            _ => Err(ToolError(format!("{} has no tool {tool}", self.name))),
        }
    }

    fn delegates(&self) -> Vec<Tool> {
        let delegates = self.tools.iter().filter(|tool| tool.is_delegate());
        delegates.cloned().collect()
    }
}
