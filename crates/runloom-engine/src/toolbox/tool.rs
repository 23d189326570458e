//! One tool of a run.

use std::sync::Arc;

use runloom_protocol::event::LocalToolCall;
use runloom_protocol::policy::CallEffect;
use runloom_protocol::tools::{DelegateRef, Object};
use serde_json::{Value, json};

use crate::policy::{CompiledPolicy, Hints, call_effect};
use runloom_ports::effect::Effect;
use runloom_ports::tools::ServerTool;
use runloom_schema::Validator;

/// One tool, ready to be called.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Model-facing name.
    pub name: String,
    /// Its executor.
    pub kind: ToolKind,
    /// Whether calls of one turn may run concurrently.
    pub read_only: bool,
    /// The effect of a repetition.
    pub effect: Effect,
    /// Results are replayed on later turns of the session.
    pub retain: bool,
    /// The policy of the administrator for this tool, which applies in every run.
    pub policy: Option<Arc<CompiledPolicy>>,
    pub(super) validator: Validator,
}

/// The executor of a tool, and the fields that its events echo.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ToolKind {
    /// A function of the client.
    Local,
    /// A remote agent that the client calls.
    A2aLocal {
        /// The card, whole.
        agent_card: Arc<Object>,
    },
    /// A tool of an MCP server that the client is connected to.
    McpLocal {
        /// The server's label.
        server: String,
        /// The tool's name as the spec has it.
        tool_name: String,
        /// As given in the spec.
        server_info: Option<Arc<Object>>,
        /// As given in the spec.
        annotations: Option<Value>,
    },
    /// The server executes it.
    Server(Arc<ServerTool>),
    /// The server starts a run of another agent.
    Delegate(Arc<DelegateRef>),
}

impl Tool {
    /// Checks arguments against the tool's schema.
    ///
    /// # Errors
    /// JSON text for the model with each violation and its path, so that it can correct itself.
    pub fn check(&self, input: &Value) -> Result<(), String> {
        let host_checks = |tool: &Arc<ServerTool>| tool.action_effects.is_some();
        if self.server().is_some_and(host_checks) {
            return Ok(());
        }
        let Err(violations) = self.validator.check(input) else {
            return Ok(());
        };
        Err(json!({
            "error": "tool_input_invalid",
            "tool": self.name,
            "message": "The arguments do not match the tool's schema; the tool was not called.",
            "violations": violations,
            "hint": "Correct the arguments at these paths and call the tool again.",
        })
        .to_string())
    }

    /// Its effect as policies name it.
    #[must_use]
    pub fn call_effect(&self) -> CallEffect {
        if self.is_delegate() {
            return CallEffect::Delegate;
        }
        call_effect(self.effect)
    }

    /// Its own hints, when it has any.
    #[must_use]
    pub fn annotations(&self) -> Option<Value> {
        match &self.kind {
            ToolKind::McpLocal { annotations, .. } => annotations.clone(),
            ToolKind::Server(tool) => {
                let own = tool.annotations.filter(|hints| !hints.is_empty());
                own.and_then(|hints| serde_json::to_value(hints).ok())
            }
            ToolKind::Local | ToolKind::Delegate(_) | ToolKind::A2aLocal { .. } => None,
        }
    }

    /// Its hints, with all defaults applied: its own, those of MCP, or those that follow from its effect.
    #[must_use]
    pub fn hints(&self) -> Hints {
        match &self.kind {
            ToolKind::McpLocal { annotations, .. } => {
                Hints::of_mcp(annotations.as_ref(), self.effect)
            }
            ToolKind::Server(tool) if tool.annotations.is_some() => {
                Hints::of_mcp(self.annotations().as_ref(), self.effect)
            }
            ToolKind::Local
            | ToolKind::Delegate(_)
            | ToolKind::A2aLocal { .. }
            | ToolKind::Server(_) => Hints::of_effect(self.call_effect()),
        }
    }

    /// The effect of repeating a call with these arguments.
    #[must_use]
    pub fn effect_of(&self, input: &Value) -> Effect {
        self.server()
            .map_or(self.effect, |tool| tool.effect_of(input))
    }

    /// Whether a call with these arguments may run concurrently with others of its turn.
    #[must_use]
    pub fn is_read_only(&self, input: &Value) -> bool {
        match self.server() {
            Some(tool) => tool.effect_of(input) == Effect::Read,
            None => self.read_only,
        }
    }

    /// The resolved tool, when the server executes it.
    #[must_use]
    pub fn server(&self) -> Option<&Arc<ServerTool>> {
        match &self.kind {
            ToolKind::Server(tool) => Some(tool),
            _ => None,
        }
    }

    /// Whether a call starts a run of another agent.
    #[must_use]
    pub fn is_delegate(&self) -> bool {
        matches!(self.kind, ToolKind::Delegate(_))
    }

    /// Whether the client executes it.
    #[must_use]
    pub fn is_client(&self) -> bool {
        match self.kind {
            ToolKind::Local | ToolKind::A2aLocal { .. } | ToolKind::McpLocal { .. } => true,
            ToolKind::Server(_) | ToolKind::Delegate(_) => false,
        }
    }

    /// The event that asks the client to execute a call.
    #[must_use]
    pub fn local_call(&self, tool_use_id: &str, args: Value) -> LocalToolCall {
        let mut call = LocalToolCall {
            tool_use_id: tool_use_id.to_owned(),
            name: self.name.clone(),
            args,
            kind: "local".to_owned(),
            agent_card: None,
            mcp_server: None,
            mcp_tool_name: None,
            mcp_server_info: None,
            annotations: None,
        };
        match &self.kind {
            ToolKind::Local | ToolKind::Server(_) | ToolKind::Delegate(_) => {}
            ToolKind::A2aLocal { agent_card } => {
                call.kind = "a2a_local".to_owned();
                call.agent_card = Some(Object::clone(agent_card));
            }
            ToolKind::McpLocal {
                server,
                tool_name,
                server_info,
                annotations,
            } => {
                call.kind = "mcp_local".to_owned();
                // The client knows the tool by the name that it gave.
                call.name.clone_from(tool_name);
                call.mcp_server = Some(server.clone());
                call.mcp_tool_name = Some(tool_name.clone());
                call.mcp_server_info = server_info.as_deref().cloned();
                call.annotations.clone_from(annotations);
            }
        }
        call
    }
}
