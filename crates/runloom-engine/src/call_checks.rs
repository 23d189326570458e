//! Checks of the arguments that a person changed in an approval. Stored with the approval, so that any process can
//! check a decision without the run.

use runloom_protocol::approval::Ruling;
use runloom_protocol::error::Issue;
use runloom_protocol::policy::{CallEffect, Decision, Policy};
use runloom_schema::{SchemaCache, Validator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::{Action, CompiledPolicy, Hints, judge};
use crate::toolbox::Toolbox;

/// The schema of a tool, and the facts about it that policies use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallChecks {
    /// Model-facing name.
    pub name: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Effect of a call.
    pub effect: CallEffect,
    /// Hints of the tool.
    pub hints: Hints,
    /// The administrator's policy for the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

impl CallChecks {
    /// The checks of the tool of a model-facing name.
    #[must_use]
    pub fn of(toolbox: &Toolbox, name: &str) -> Option<Self> {
        let (tool, declaration) = (toolbox.get(name)?, toolbox.declaration(name)?);
        Some(Self {
            name: tool.name.clone(),
            parameters: declaration.parameters.clone(),
            effect: tool.call_effect(),
            hints: tool.hints(),
            policy: tool.server().and_then(|tool| tool.policy.clone()),
        })
    }

    /// Checks the changes of a decision: they must fit the schema, and no policy may deny them. `policies` are those
    /// of the run; new schemas are built on the calling thread.
    ///
    /// # Errors
    /// Every violation, with its path in the request.
    pub fn check(
        &self,
        ruling: &Ruling,
        policies: &[CompiledPolicy],
        schemas: &SchemaCache,
    ) -> Result<(), Vec<Issue>> {
        let Some(input) = &ruling.input else {
            return Ok(());
        };
        let own = self.policy.as_ref().map(|policy| {
            CompiledPolicy::compile(policy, "policy", schemas)
                .unwrap_or_else(|_| CompiledPolicy::closed())
        });
        let mut issues = match schemas.compile(&self.parameters) {
            Ok(validator) => violations(&validator, input),
            // The schema was replaced by one that accepts any object when the run began: the peer checks.
            Err(_) => Vec::new(),
        };
        let action = Action {
            tool: &self.name,
            sub_action: None,
            effect: self.effect,
            hints: self.hints,
            input,
        };
        let judgement = judge(policies.iter().chain(&own), &action);
        if judgement.decision == Decision::Deny {
            let reason = judgement.reason.as_deref().unwrap_or("no reason is given");
            issues.push(Issue {
                path: "input".to_owned(),
                message: format!("a policy denies the call with these arguments: {reason}"),
            });
        }
        if issues.is_empty() {
            Ok(())
        } else {
            Err(issues)
        }
    }
}

fn violations(validator: &Validator, input: &Value) -> Vec<Issue> {
    let found = validator.check(input).err().unwrap_or_default();
    found
        .into_iter()
        .map(|violation| Issue {
            path: format!("input{}", violation.path.replace('/', ".")),
            message: violation.message,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use runloom_protocol::approval::ApprovalVerdict;
    use serde_json::json;

    use super::*;

    fn checks() -> CallChecks {
        CallChecks {
            name: "write".to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
            effect: CallEffect::Once,
            hints: Hints::of_effect(CallEffect::Once),
            policy: Some(
                serde_json::from_value(json!({"rules": [{
                    "args": {"properties": {"path": {"type": "string", "pattern": "^/etc"}}, "required": ["path"]}, "decision": "deny", "reason": "Not there."
                }]}))
                .unwrap(),
            ),
        }
    }

    #[test]
    fn changed_arguments_must_fit_schema_and_policies() {
        for (input, paths) in [
            (json!({"path": "/tmp/a"}), vec![]),
            (json!({"path": 1}), vec!["input.path"]),
            (json!({}), vec!["input"]),
            (json!({"path": "/etc/passwd"}), vec!["input"]),
        ] {
            let ruling = Ruling {
                decision: ApprovalVerdict::Approve,
                input: Some(input.clone()),
                sub_decisions: Vec::new(),
                note: None,
            };
            let checked = checks().check(&ruling, &[], &SchemaCache::new());
            let found: Vec<String> = checked
                .err()
                .unwrap_or_default()
                .into_iter()
                .map(|issue| issue.path)
                .collect();
            assert_eq!(found, paths, "{input}");
        }
    }
}
