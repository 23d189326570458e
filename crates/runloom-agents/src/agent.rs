//! Agents.

use std::sync::Arc;

use runloom_protocol::limits::MAX_DEPTH_DEFAULT;
use runloom_protocol::spec::{Budgets, OutputSchema};

use crate::models::Model;
use crate::policy::Policy;
use crate::toolset::{Tool, Toolset};

/// An agent: instructions, a model, tools and limits. It can run any number of times.
#[derive(Clone)]
pub struct Agent {
    pub(crate) id: String,
    pub(crate) instructions: String,
    pub(crate) model: Model,
    pub(crate) tools: Vec<Tool>,
    pub(crate) toolsets: Vec<Arc<dyn Toolset>>,
    pub(crate) max_depth: u8,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) budgets: Budgets,
    pub(crate) output_schema: Option<OutputSchema>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, model) = (&self.id, &self.model);
        let mut shown = f.debug_struct("Agent");
        shown.field("id", id).field("model", model);
        shown.finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent without tools that may have one level of runs below it.
    pub fn new(id: impl Into<String>, model: Model) -> Self {
        Self {
            id: id.into(),
            instructions: String::new(),
            model,
            tools: Vec::new(),
            toolsets: Vec::new(),
            max_depth: MAX_DEPTH_DEFAULT,
            policy: None,
            budgets: Budgets::default(),
            output_schema: None,
        }
    }

    /// The system prompt.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds the tools of a toolset.
    #[must_use]
    pub fn toolset(mut self, toolset: Arc<dyn Toolset>) -> Self {
        self.toolsets.push(toolset);
        self
    }

    /// Levels of runs below the agent's runs: 0 to 8.
    #[must_use]
    pub fn max_depth(mut self, levels: u8) -> Self {
        self.max_depth = levels.min(runloom_protocol::limits::MAX_DEPTH_MAX);
        self
    }

    /// The policy of the agent's tool calls. Delegates inherit it.
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Limits of a run and all runs below it.
    #[must_use]
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// The JSON Schema that the final text must follow.
    #[must_use]
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.output_schema = Some(schema);
        self
    }
}
