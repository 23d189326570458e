//! The call policy port: decisions of the process that runs the agent, beside the policies of specs.

use async_trait::async_trait;
use runloom_protocol::id::AgentId;
use runloom_protocol::policy::{CallEffect, Decision};
use serde_json::Value;

/// Decides about tool calls before any call of the turn is executed.
#[async_trait]
pub trait CallPolicy: Send + Sync {
    /// One decision for each call, in order. The strictest of this one and the decisions of the spec's policies holds.
    async fn judge(&self, run: &JudgedRun, calls: &[JudgedCall]) -> Vec<CallDecision>;
}

/// The run that makes the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedRun {
    /// The agent of the run.
    pub agent: Option<AgentId>,
    /// 0 for a root.
    pub depth: u32,
}

/// A call to be decided.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedCall {
    /// Model-facing name of the tool.
    pub tool: String,
    /// What the tool's host calls; `None` unless a host executes the tool.
    pub target: Option<Value>,
    /// Arguments.
    pub input: Value,
    /// Effect of the call.
    pub effect: CallEffect,
    /// MCP annotations of the tool.
    pub annotations: Option<Value>,
}

/// The decision about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDecision {
    /// The decision.
    pub decision: Decision,
    /// Why.
    pub reason: Option<String>,
}
