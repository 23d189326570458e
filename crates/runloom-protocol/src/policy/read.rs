//! Validation of policies: every violation with its path.

use std::collections::HashSet;

use serde_json::Value;

use super::{CallEffect, Decision, HintConditions, NamePattern, Policy, Rule};
use crate::check::names;
use crate::limits;
use crate::read::{Excerpt, Fields, Node};

/// The policy under `policy`, if given. Unknown fields and values are errors for every author: if they were
/// ignored, the author would believe that a protection is active when it is not.
pub(crate) fn read(fields: &Fields<'_, '_>) -> Option<Policy> {
    let node = fields.get("policy")?;
    node.has_bytes_within(limits::POLICY_MAX_BYTES);
    let fields = node.fields()?;
    let default = fields.keyword("default").unwrap_or_default();
    let mut ids = HashSet::new();
    let rules = fields.list("rules", limits::POLICY_RULES_MAX, |node| {
        rule(node, &mut ids)
    });
    fields.refuse_unread();
    Some(Policy {
        default,
        rules: rules.unwrap_or_default(),
    })
}

fn rule<'v>(node: Node<'v, '_>, ids: &mut HashSet<&'v str>) -> Option<Rule> {
    let fields = node.fields()?;
    let decision = fields.require("decision").and_then(|node| node.keyword());
    let rule = Rule {
        id: fields.get("id").and_then(|node| rule_id(node, ids)),
        tools: list(&fields, "tools", limits::POLICY_PATTERNS_MAX, pattern),
        effects: list(&fields, "effects", CallEffect::ALL.len(), |node| {
            node.keyword()
        }),
        annotations: hints(&fields),
        args: fields
            .get("args")
            .and_then(|node| node.expect("a JSON Schema object", node.value().as_object()))
            .map(|schema| Value::Object(schema.clone())),
        decision: decision.unwrap_or_default(),
        reason: fields
            .text("reason", limits::POLICY_REASON_MAX_CHARS)
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
        timeout_ms: fields.integer(
            "timeoutMs",
            limits::APPROVAL_TIMEOUT_MS_MIN..=limits::APPROVAL_TIMEOUT_MS_MAX,
        ),
        approver: fields.keyword("approver").unwrap_or_default(),
    };
    if decision.is_some_and(|decision| decision != Decision::Ask) {
        for key in ["timeoutMs", "approver"] {
            if fields.has(key) {
                fields.refuse(key, "belongs to a rule with `decision` `ask`");
            }
        }
    }
    fields.refuse_unread();
    decision.map(|_| rule)
}

/// A condition that is a list: given, it has elements.
fn list<'v, T>(
    fields: &Fields<'v, '_>,
    key: &'static str,
    max: usize,
    read: impl FnMut(Node<'v, '_>) -> Option<T>,
) -> Vec<T> {
    let Some(array) = fields.get(key).and_then(|node| node.array(max)) else {
        return Vec::new();
    };
    if array.is_empty() {
        array.refuse("must not be empty: no call could match the rule");
    }
    array.iter().filter_map(read).collect()
}

fn rule_id<'v>(node: Node<'v, '_>, ids: &mut HashSet<&'v str>) -> Option<String> {
    let id = node.string()?;
    if !names::is_metadata_key(id) {
        let wanted = "expected 1 to 64 of [A-Za-z0-9._-]";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(id)));
        return None;
    }
    if !ids.insert(id) {
        node.refuse(format_args!("duplicate rule id `{id}`"));
    }
    Some(id.to_owned())
}

fn pattern(node: Node<'_, '_>) -> Option<NamePattern> {
    let text = node.filled_text(limits::POLICY_PATTERN_MAX_CHARS)?;
    Some(NamePattern::new(text))
}

fn hints(fields: &Fields<'_, '_>) -> HintConditions {
    let Some(node) = fields.get("annotations") else {
        return HintConditions::default();
    };
    let Some(fields) = node.fields() else {
        return HintConditions::default();
    };
    let hints = HintConditions {
        read_only_hint: fields.boolean("readOnlyHint"),
        destructive_hint: fields.boolean("destructiveHint"),
        idempotent_hint: fields.boolean("idempotentHint"),
        open_world_hint: fields.boolean("openWorldHint"),
    };
    fields.refuse_unread();
    if fields.object().is_empty() {
        node.refuse("must not be empty: name a hint and its value");
    }
    hints
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Issue;
    use crate::policy::Approver;
    use crate::validate;

    fn checked(policy: Value) -> Result<Policy, Vec<Issue>> {
        let body = json!({"systemPrompt": "x", "prompt": "x", "policy": policy});
        let run = validate::create_run(&body)?;
        Ok(run.spec.policy.unwrap_or_default())
    }

    fn first_error(policy: Value) -> (String, String) {
        let issue = checked(policy).unwrap_err().remove(0);
        (issue.path, issue.message)
    }

    #[test]
    fn accepts_the_policy_of_the_contract() {
        let body = json!({"default": "ask", "rules": [
            {"id": "no-shell", "tools": ["shell_*"], "decision": "deny", "reason": "There is no shell here."},
            {"effects": ["once"], "annotations": {"destructiveHint": true}, "decision": "ask",
             "reason": "It cannot be undone.", "timeoutMs": 3_600_000, "approver": "other"},
            {"tools": ["pay"], "args": {"required": ["amount"]}, "decision": "ask"},
        ]});
        let policy = checked(body.clone()).unwrap();
        assert_eq!(policy.default, Decision::Ask);
        assert_eq!(policy.rules[1].approver, Approver::Other);
        assert_eq!(serde_json::to_value(&policy).unwrap(), body);
        assert_eq!(serde_json::from_value::<Policy>(body).unwrap(), policy);
    }

    #[test]
    fn rejects_unknown_fields_and_values_with_their_path() {
        for (policy, path) in [
            (json!({"defualt": "deny"}), "policy.defualt"),
            (json!({"default": "never"}), "policy.default"),
            (
                json!({"rules": [{"decision": "allow"}, {"decision": "no"}]}),
                "policy.rules[1].decision",
            ),
            (json!({"rules": [{}]}), "policy.rules[0].decision"),
            (
                json!({"rules": [{"decision": "deny", "tool": ["x"]}]}),
                "policy.rules[0].tool",
            ),
            (
                json!({"rules": [{"decision": "deny", "effects": ["write"]}]}),
                "policy.rules[0].effects[0]",
            ),
            (
                json!({"rules": [{"decision": "deny", "tools": []}]}),
                "policy.rules[0].tools",
            ),
            (
                json!({"rules": [{"decision": "deny", "tools": [""]}]}),
                "policy.rules[0].tools[0]",
            ),
            (
                json!({"rules": [{"decision": "deny", "annotations": {"readOnly": true}}]}),
                "policy.rules[0].annotations.readOnly",
            ),
            (
                json!({"rules": [{"decision": "deny", "annotations": {"readOnlyHint": "yes"}}]}),
                "policy.rules[0].annotations.readOnlyHint",
            ),
            (
                json!({"rules": [{"decision": "deny", "annotations": {}}]}),
                "policy.rules[0].annotations",
            ),
            (
                json!({"rules": [{"decision": "deny", "args": "x"}]}),
                "policy.rules[0].args",
            ),
            (
                json!({"rules": [{"decision": "deny", "timeoutMs": 5000}]}),
                "policy.rules[0].timeoutMs",
            ),
            (
                json!({"rules": [{"decision": "ask", "timeoutMs": 999}]}),
                "policy.rules[0].timeoutMs",
            ),
            (
                json!({"rules": [{"decision": "ask", "timeoutMs": 2_592_000_001_u64}]}),
                "policy.rules[0].timeoutMs",
            ),
            (
                json!({"rules": [{"decision": "ask", "approver": "me"}]}),
                "policy.rules[0].approver",
            ),
            (
                json!({"rules": [{"decision": "ask", "id": "a b"}]}),
                "policy.rules[0].id",
            ),
            (
                json!({"rules": [{"decision": "ask", "id": "a"}, {"decision": "ask", "id": "a"}]}),
                "policy.rules[1].id",
            ),
            (json!("deny"), "policy"),
        ] {
            let (found, message) = first_error(policy.clone());
            assert_eq!(found, path, "{policy}: {message}");
        }
    }

    #[test]
    fn rejects_what_is_beyond_the_limits() {
        let rule = json!({"decision": "deny"});
        let (path, _) = first_error(json!({"rules": vec![rule; 65]}));
        assert_eq!(path, "policy.rules");
        let long = "x".repeat(121);
        let (path, _) = first_error(json!({"rules": [{"tools": [long], "decision": "deny"}]}));
        assert_eq!(path, "policy.rules[0].tools[0]");
        let many = vec!["x"; 33];
        let (path, _) = first_error(json!({"rules": [{"tools": many, "decision": "deny"}]}));
        assert_eq!(path, "policy.rules[0].tools");
        let reason = "x".repeat(501);
        let (path, _) = first_error(json!({"rules": [{"reason": reason, "decision": "deny"}]}));
        assert_eq!(path, "policy.rules[0].reason");
        let args = json!({"description": "x".repeat(33 * 1024)});
        let (path, message) = first_error(json!({"rules": [{"args": args, "decision": "deny"}]}));
        assert_eq!(path, "policy");
        assert!(message.contains("32768 bytes"), "{message}");
    }
}
