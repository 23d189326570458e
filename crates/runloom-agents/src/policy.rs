//! Policies: decisions about tool calls.

use async_trait::async_trait;
use runloom_engine::policy::{Action, CompiledPolicy, Hints, judge};
use runloom_ports::effect::Effect;
use runloom_protocol::error::Issue;
use runloom_protocol::policy::{CallEffect, Decision as Verdict, Policy as Rules};
use runloom_protocol::validate::agent_definition;
use runloom_schema::SchemaCache;
use serde_json::{Value, json};

/// Decides which calls are allowed, denied, or wait for a person.
#[async_trait]
pub trait Policy: Send + Sync {
    /// The decision about one call.
    async fn evaluate(&self, action: &PendingAction) -> Decision;

    /// The decisions about all calls of a turn, in order.
    async fn evaluate_many(&self, actions: &[PendingAction]) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(actions.len());
        for action in actions {
            decisions.push(self.evaluate(action).await);
        }
        decisions
    }

    /// The rules of a policy that is data. With them `evaluate` is not called, and approvals name their rule.
    fn as_static(&self) -> Option<&StaticPolicy> {
        None
    }
}

/// The decision about a call; the text is the reason, which the model and people read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call is executed.
    Allow,
    /// The call is not executed.
    Deny(String),
    /// The run pauses until a person has decided.
    Ask(String),
}

/// A call to decide.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingAction {
    /// The agent or delegate that makes the call.
    pub agent: String,
    /// The name of the tool's toolset.
    pub toolset: Option<String>,
    /// The model-facing name of the tool.
    pub tool: String,
    /// The name of the sub-action, when one element of a batched call is decided.
    pub sub_action: Option<String>,
    /// The arguments.
    pub input: Value,
    /// The effect of the call.
    pub effect: CallEffect,
    /// MCP annotations of the tool.
    pub annotations: Option<Value>,
    /// 0 for the run that the caller started.
    pub depth: u32,
}

/// A policy of rules: the same document as `policy` in a spec.
#[derive(Debug, Clone)]
pub struct StaticPolicy {
    pub(crate) rules: Rules,
    compiled: CompiledPolicy,
}

/// Why a policy document is refused: every violation with its path.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the policy is not valid: {}", shown(.0))]
pub struct PolicyError(pub Vec<Issue>);

fn shown(issues: &[Issue]) -> String {
    let lines = issues.iter();
    let lines: Vec<String> = lines
        .map(|issue| format!("{}: {}", issue.path, issue.message))
        .collect();
    lines.join("; ")
}

impl StaticPolicy {
    /// Reads a policy. Unknown fields and values are errors.
    ///
    /// # Errors
    /// Every violation with its path.
    pub fn from_json(text: &str) -> Result<Self, PolicyError> {
        let refused = |message: String| {
            let path = "policy".to_owned();
            PolicyError(vec![Issue { path, message }])
        };
        let document: Value =
            serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
        let agent = agent_definition(&json!({"systemPrompt": "-", "policy": document}));
        let agent = agent.map_err(PolicyError)?;
        let rules = agent.policy.unwrap_or_default();
        let compiled = CompiledPolicy::compile(&rules, "policy", &SchemaCache::new());
        Ok(Self {
            compiled: compiled.map_err(PolicyError)?,
            rules,
        })
    }
}

#[async_trait]
impl Policy for StaticPolicy {
    async fn evaluate(&self, action: &PendingAction) -> Decision {
        let effect = match action.effect {
            CallEffect::Read => Effect::Read,
            CallEffect::Idempotent => Effect::Idempotent,
            CallEffect::Once | CallEffect::Delegate => Effect::Once,
        };
        let hints = match &action.annotations {
            Some(own) => Hints::of_mcp(Some(own), effect),
            None => Hints::of_effect(action.effect),
        };
        let judged = judge(
            [&self.compiled],
            &Action {
                tool: &action.tool,
                sub_action: action.sub_action.as_deref(),
                effect: action.effect,
                hints,
                input: &action.input,
            },
        );
        let reason = judged.reason.unwrap_or_default();
        match judged.decision {
            Verdict::Allow => Decision::Allow,
            Verdict::Deny => Decision::Deny(reason),
            Verdict::Ask => Decision::Ask(reason),
        }
    }

    fn as_static(&self) -> Option<&StaticPolicy> {
        Some(self)
    }
}
