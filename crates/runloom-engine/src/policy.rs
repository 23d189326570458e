//! Compiled policies and their evaluation. Pure: the same policies and the same call always give the same judgement.

use runloom_protocol::error::Issue;
use runloom_protocol::policy::{
    Approver, CallEffect, Decision, HintConditions, NamePattern, Policy, Rule,
};
use runloom_schema::{SchemaCache, Validator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use runloom_ports::effect::Effect;

/// A policy with the schemas of its rules compiled.
#[derive(Debug, Clone)]
pub struct CompiledPolicy {
    default: Decision,
    default_reason: Option<&'static str>,
    rules: Vec<CompiledRule>,
}

#[derive(Debug, Clone)]
struct CompiledRule {
    rule: Rule,
    args: Option<Validator>,
}

/// The subject of a policy: a tool call, or one sub-action of it.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    /// Model-facing name of the tool.
    pub tool: &'a str,
    /// Name of the sub-action.
    pub sub_action: Option<&'a str>,
    /// Effect of the call.
    pub effect: CallEffect,
    /// Hints of the tool.
    pub hints: Hints,
    /// Arguments, or the element of the sub-action.
    pub input: &'a Value,
}

/// The decision about an action, with its rule, reason and approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The decision.
    pub decision: Decision,
    /// Id of the rule, if it has one.
    pub rule: Option<String>,
    /// The reason, if the policy states one.
    pub reason: Option<String>,
    /// Time limit of an approval, if the rule sets one.
    pub timeout_ms: Option<u64>,
    /// Who may decide an approval.
    pub approver: Approver,
}

/// The hints of a tool, with all defaults applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hints {
    /// The tool only reads.
    pub read_only: bool,
    /// The tool may destroy something.
    pub destructive: bool,
    /// Repeating a call changes nothing more.
    pub idempotent: bool,
    /// The tool reaches systems outside a closed set.
    pub open_world: bool,
}

impl CompiledPolicy {
    /// Compiles the schemas of a policy at `path` of the spec. New schemas are built on the calling thread.
    ///
    /// # Errors
    /// Every schema that cannot be used, with its path.
    pub fn compile(policy: &Policy, path: &str, schemas: &SchemaCache) -> Result<Self, Vec<Issue>> {
        let (mut rules, mut issues) = (Vec::new(), Vec::new());
        for (index, rule) in policy.rules.iter().enumerate() {
            let args = rule.args.as_ref().map(|schema| schemas.compile(schema));
            match args.transpose() {
                Ok(args) => rules.push(CompiledRule {
                    rule: rule.clone(),
                    args,
                }),
                Err(error) => issues.push(Issue {
                    path: format!("{path}.rules[{index}].args"),
                    message: error.to_string(),
                }),
            }
        }
        if !issues.is_empty() {
            return Err(issues);
        }
        Ok(Self {
            default: policy.default,
            default_reason: None,
            rules,
        })
    }

    /// Replacement for a policy that can no longer be compiled: it denies every call.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            default: Decision::Deny,
            default_reason: Some("The policy of this tool cannot be evaluated."),
            rules: Vec::new(),
        }
    }

    /// The schemas that [`Self::compile`] compiles.
    pub fn schemas(policy: &Policy) -> impl Iterator<Item = &Value> {
        policy.rules.iter().filter_map(|rule| rule.args.as_ref())
    }

    /// The first rule that matches decides, else the default.
    fn judge(&self, action: &Action<'_>) -> Judgement {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(action)) else {
            return Judgement {
                decision: self.default,
                reason: self.default_reason.map(str::to_owned),
                ..Judgement::allow()
            };
        };
        Judgement {
            decision: rule.rule.decision,
            rule: rule.rule.id.clone(),
            reason: rule.rule.reason.clone(),
            timeout_ms: rule.rule.timeout_ms,
            approver: rule.rule.approver,
        }
    }
}

impl CompiledRule {
    fn matches(&self, action: &Action<'_>) -> bool {
        let Rule {
            tools,
            effects,
            annotations,
            decision,
            ..
        } = &self.rule;
        let named = |pattern: &NamePattern| {
            pattern.matches(action.tool)
                || action.sub_action.is_some_and(|name| pattern.matches(name))
        };
        (tools.is_empty() || tools.iter().any(named))
            && (effects.is_empty() || effects.contains(&action.effect))
            && action.hints.satisfy(annotations)
            // A check that cannot be made must not allow a call that the rule denies.
            && self.args.as_ref().is_none_or(|schema| {
                schema.matches(action.input).unwrap_or(*decision != Decision::Allow)
            })
    }
}

impl Judgement {
    /// The call is allowed.
    #[must_use]
    pub fn allow() -> Self {
        Self {
            decision: Decision::Allow,
            rule: None,
            reason: None,
            timeout_ms: None,
            approver: Approver::Any,
        }
    }

    /// The stricter of two. Of two that ask, the first gives rule and reason; the narrower circle of approvers and the
    /// shorter time hold.
    pub(crate) fn or_stricter(self, other: Self) -> Self {
        if other.decision > self.decision {
            return other;
        }
        if other.decision == Decision::Ask && self.decision == Decision::Ask {
            let times = [self.timeout_ms, other.timeout_ms];
            return Self {
                timeout_ms: times.into_iter().flatten().min(),
                approver: self.approver.max(other.approver),
                ..self
            };
        }
        self
    }
}

/// Compiles policies, each with its path.
///
/// # Errors
/// Every schema that cannot be used, with its path.
pub fn compile_all<'p>(
    policies: impl Iterator<Item = (String, &'p Policy)>,
    schemas: &SchemaCache,
) -> Result<Vec<CompiledPolicy>, Vec<Issue>> {
    policies
        .map(|(path, policy)| CompiledPolicy::compile(policy, &path, schemas))
        .collect()
}

/// The strictest judgement of several policies.
pub fn judge<'p>(
    policies: impl IntoIterator<Item = &'p CompiledPolicy>,
    action: &Action<'_>,
) -> Judgement {
    policies
        .into_iter()
        .map(|policy| policy.judge(action))
        .reduce(Judgement::or_stricter)
        .unwrap_or_else(Judgement::allow)
}

impl Hints {
    /// The hints that follow from an effect.
    #[must_use]
    pub fn of_effect(effect: CallEffect) -> Self {
        let read_only = effect == CallEffect::Read;
        Self {
            read_only,
            destructive: !read_only,
            idempotent: matches!(effect, CallEffect::Read | CallEffect::Idempotent),
            open_world: true,
        }
    }

    /// The hints of a tool of an MCP server: its own, and MCP's defaults for those that it lacks. When its effect is
    /// not the one that its hints claim, an administrator set the effect, which takes precedence.
    #[must_use]
    pub fn of_mcp(annotations: Option<&Value>, effect: Effect) -> Self {
        let own = |name: &str| annotations.and_then(|hints| hints.get(name)?.as_bool());
        let claimed = Self {
            read_only: own("readOnlyHint").unwrap_or(false),
            destructive: own("destructiveHint").unwrap_or(true),
            idempotent: own("idempotentHint").unwrap_or(false),
            open_world: own("openWorldHint").unwrap_or(true),
        };
        let mut hints = claimed;
        if claimed.effect() != effect {
            hints.read_only = effect == Effect::Read;
            hints.idempotent = effect != Effect::Once;
        }
        hints.destructive &= !hints.read_only;
        hints
    }

    /// The effect that the hints claim.
    fn effect(self) -> Effect {
        if self.read_only {
            Effect::Read
        } else if self.idempotent {
            Effect::Idempotent
        } else {
            Effect::Once
        }
    }

    fn satisfy(self, wanted: &HintConditions) -> bool {
        let is = |wanted: Option<bool>, found: bool| wanted.is_none_or(|wanted| wanted == found);
        is(wanted.read_only_hint, self.read_only)
            && is(wanted.destructive_hint, self.destructive)
            && is(wanted.idempotent_hint, self.idempotent)
            && is(wanted.open_world_hint, self.open_world)
    }
}

/// The effect of a call as policies name it.
#[must_use]
pub fn call_effect(effect: Effect) -> CallEffect {
    match effect {
        Effect::Read => CallEffect::Read,
        Effect::Idempotent => CallEffect::Idempotent,
        Effect::Once => CallEffect::Once,
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
