//! Single tools: closures and delegates.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use runloom_ports::effect::Effect;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::delegate::DelegateOptions;
use super::{ToolError, ToolInfo, ToolOutput, Toolset};

/// The future of one call.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// A tool: a closure, or a delegate made by [`crate::ToolsetExt::as_delegated`].
#[derive(Clone)]
pub struct Tool {
    pub(crate) body: Body,
}

#[derive(Clone)]
pub(crate) enum Body {
    Closure(Arc<Closure>),
    Delegate(Arc<Delegate>),
}

pub(crate) struct Closure {
    pub(crate) info: ToolInfo,
    pub(crate) handler: Arc<dyn Fn(Value, CancellationToken) -> Calling + Send + Sync>,
}

pub(crate) struct Delegate {
    pub(crate) toolset: Arc<dyn Toolset>,
    pub(crate) options: DelegateOptions,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tool").field(&self.name()).finish()
    }
}

impl Tool {
    /// A tool that is a closure. Its effect is [`Effect::Once`] unless [`Tool::effect`] says otherwise.
    pub fn new<F, A>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        handler: F,
    ) -> Self
    where
        F: Fn(Value, CancellationToken) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let info = ToolInfo {
            name: name.into(),
            description: description.into(),
            input_schema: schema,
            output_schema: None,
            annotations: None,
            effect: Effect::Once,
        };
        let handler = Arc::new(move |input, cancel| Box::pin(handler(input, cancel)) as Calling);
        Self {
            body: Body::Closure(Arc::new(Closure { info, handler })),
        }
    }

    /// The effect of a call; without meaning for a delegate.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        match self.body {
            Body::Closure(closure) => Self {
                body: Body::Closure(Arc::new(Closure {
                    info: ToolInfo {
                        effect,
                        ..closure.info.clone()
                    },
                    handler: Arc::clone(&closure.handler),
                })),
            },
            Body::Delegate(_) => self,
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.body {
            Body::Closure(closure) => &closure.info.name,
            Body::Delegate(delegate) => {
                let name = delegate.options.name.as_deref();
                name.unwrap_or_else(|| delegate.toolset.name())
            }
        }
    }

    pub(crate) fn info(&self) -> Option<ToolInfo> {
        match &self.body {
            Body::Closure(closure) => Some(closure.info.clone()),
            Body::Delegate(_) => None,
        }
    }

    pub(crate) fn is_delegate(&self) -> bool {
        matches!(self.body, Body::Delegate(_))
    }
}
