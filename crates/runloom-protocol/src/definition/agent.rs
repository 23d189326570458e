//! Persisted agents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::spec::{Budgets, LoopDetection, Metadata, OutputSchema, ToolBudget};
use crate::tools::ToolRef;

/// A persisted agent: what a spec says, kept under a name, and reached by `agentId`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentDefinition {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is good for; shown in lists and on its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its instructions; they win over a request's `systemPrompt`.
    pub system_prompt: String,
    /// Texts that follow the instructions, each under its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// Its model, in any form of the catalog; `None` = the workspace's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The model that takes over when that one is out of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model_id: Option<String>,
    /// 0–100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<u8>,
    /// Its tools; a request's tools are merged on top. Header values may be `{{secret:NAME}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolRef>,
    /// Limits of turns, time and money.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
    /// The shape of its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// `None` = the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<LoopDetection>,
    /// `None` = the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Levels of runs below its runs, 0–8; `None` = 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u8>,
    /// Its policy; it applies in addition to the policy of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Labels of its runs; a request's labels win.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// A text that an agent brings along: how to do something that it is asked for again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Its heading.
    pub name: String,
    /// When it applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model reads.
    pub text: String,
}

impl AgentDefinition {
    /// The instructions with the skills behind them.
    #[must_use]
    pub fn instructions(&self) -> String {
        let mut text = self.system_prompt.clone();
        for skill in &self.skills {
            text.push_str("\n\n## Skill: ");
            text.push_str(&skill.name);
            if let Some(description) = &skill.description {
                text.push('\n');
                text.push_str(description);
            }
            text.push_str("\n\n");
            text.push_str(&skill.text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_follow_the_instructions_under_their_names() {
        let agent = AgentDefinition {
            system_prompt: "Help.".to_owned(),
            skills: vec![Skill {
                name: "Refunds".to_owned(),
                description: Some("When money is asked back.".to_owned()),
                text: "Ask for the order.".to_owned(),
            }],
            ..AgentDefinition::default()
        };
        assert_eq!(
            agent.instructions(),
            "Help.\n\n## Skill: Refunds\nWhen money is asked back.\n\nAsk for the order."
        );
    }
}
