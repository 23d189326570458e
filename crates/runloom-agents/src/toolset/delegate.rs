//! Delegates: toolsets behind agents of their own.

use std::sync::Arc;

use runloom_protocol::spec::Budgets;

use super::Toolset;
use super::tool::{Body, Delegate, Tool};
use crate::models::Model;
use crate::policy::Policy;

/// The policy of a delegate.
#[derive(Clone, Default)]
pub enum PolicySetting {
    /// The policy of the calling run.
    #[default]
    Inherit,
    /// No policy.
    None,
    /// This policy alone.
    Use(Arc<dyn Policy>),
}

/// Settings of a delegate.
#[derive(Clone)]
pub struct DelegateOptions {
    pub(crate) model: Model,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) max_depth: Option<u8>,
    pub(crate) policy: PolicySetting,
    pub(crate) budgets: Budgets,
}

impl DelegateOptions {
    /// A delegate with this model. Its name is that of its toolset.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            name: None,
            description: None,
            instructions: None,
            max_depth: None,
            policy: PolicySetting::Inherit,
            budgets: Budgets::default(),
        }
    }

    /// The model-facing name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The description for the calling model.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// The system prompt of the child.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Levels of runs below the child, within what is left of the parent's.
    #[must_use]
    pub fn max_depth(mut self, levels: u8) -> Self {
        self.max_depth = Some(levels);
        self
    }

    /// The policy of the child.
    #[must_use]
    pub fn policy(mut self, setting: PolicySetting) -> Self {
        self.policy = setting;
        self
    }

    /// Limits of the child.
    #[must_use]
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }
}

/// Delegation to a toolset.
pub trait ToolsetExt {
    /// A tool `{prompt}` that starts a run of another agent with these tools and returns its final text.
    fn as_delegated(&self, options: DelegateOptions) -> Tool;
}

impl ToolsetExt for Arc<dyn Toolset> {
    fn as_delegated(&self, options: DelegateOptions) -> Tool {
        let toolset = Arc::clone(self);
        Tool {
            body: Body::Delegate(Arc::new(Delegate { toolset, options })),
        }
    }
}
