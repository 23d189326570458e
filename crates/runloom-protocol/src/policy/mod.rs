//! Policies: rules that decide for each tool call whether it is allowed, denied, or needs a person's approval.
//!
//! The types and their validation are here; the run machine of the engine evaluates them.

mod read;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::read::keywords;

pub(crate) use read::read;

/// Rules for the tool calls of a run. The first rule that matches a call decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// The decision when no rule matches.
    #[serde(skip_serializing_if = "Decision::is_allow")]
    pub default: Decision,
    /// The rules, in the author's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// One rule of a [`Policy`]. It matches a call when all its conditions hold; without conditions it matches every call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The name of the rule in results and approvals, unique in the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Patterns of model-facing names, of which one must match; absent means any name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<NamePattern>,
    /// Effects, of which the call must have one; absent means any effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<CallEffect>,
    /// Hints that the tool must have.
    #[serde(default, skip_serializing_if = "HintConditions::is_empty")]
    pub annotations: HintConditions,
    /// A JSON Schema that the arguments must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The decision.
    pub decision: Decision,
    /// The reason, shown to the model and to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds that an approval stays open; absent means the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The credentials that may decide.
    #[serde(default, skip_serializing_if = "Approver::is_any")]
    pub approver: Approver,
}

/// The decision of a policy about one call. The order is that of strictness.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call is executed.
    #[default]
    Allow,
    /// The call waits for an approval.
    Ask,
    /// The call is not executed.
    Deny,
}

impl Decision {
    fn is_allow(&self) -> bool {
        *self == Self::Allow
    }
}

impl crate::read::Keyword for Decision {
    const ALL: &'static [Self] = &[Self::Allow, Self::Deny, Self::Ask];

    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

keywords! {
    /// The effect of a call, as policies and approvals name it.
    pub enum CallEffect {
        /// No effect.
        Read = "read",
        /// Repeating the call changes nothing more.
        Idempotent = "idempotent",
        /// Every call has an effect.
        Once = "once",
        /// A delegate: the call starts a run.
        Delegate = "delegate",
    }
}

/// The credentials that may decide an approval.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// Any credential that may decide approvals.
    #[default]
    Any,
    /// Any of them except the one that started the root run.
    Other,
}

impl Approver {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Other => "other",
        }
    }

    /// The variant of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Any, Self::Other]
            .into_iter()
            .find(|approver| approver.as_str() == word)
    }
}

impl crate::read::Keyword for Approver {
    const ALL: &'static [Self] = &[Self::Any, Self::Other];

    fn word(self) -> &'static str {
        self.as_str()
    }
}

/// Values that hints of a tool must have; a missing one is no condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HintConditions {
    /// The tool only reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool reaches beyond a closed set of things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl HintConditions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A pattern for names: `*` is any text, also an empty one; everything else is literal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct NamePattern(String);

impl NamePattern {
    /// A pattern from its text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches the whole name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The leftmost place of each part leaves the most room for the parts behind it.
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::NamePattern;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("pay", "pay", true),
            ("pay", "payment", false),
            ("pay", "repay", false),
            ("shell_*", "shell_", true),
            ("shell_*", "shell_run", true),
            ("shell_*", "a_shell_run", false),
            ("*_run", "shell_run", true),
            ("*", "", true),
            ("*", "anything", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "ac", false),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*a*", "bab", true),
            ("**", "x", true),
            ("a.b", "axb", false),
            ("[a]", "a", false),
            ("", "", true),
        ] {
            assert_eq!(
                NamePattern::new(pattern).matches(name),
                expected,
                "{pattern} on {name}"
            );
        }
    }
}
