//! Persisted agents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::spec::{Budgets, Compaction, LoopDetection, Metadata, OutputSchema, ToolBudget};
use crate::tools::ToolRef;

/// A stored agent: a spec under a name, which runs use by `agentId`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AgentDefinition {
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the agent is for; shown in lists and in its agent card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The system prompt. It replaces the `systemPrompt` of a request.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub system_prompt: String,
    /// Texts that follow the system prompt, each under its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// The model, in any form that `modelId` of a run accepts. Absent means the workspace's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The model that takes over when `modelId` is out of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model_id: Option<String>,
    /// How much the model reasons, from 0 (off) to 100. Requests may also say `off`, `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::check::reasoning_level::ReasoningLevel")
    )]
    pub reasoning_level: Option<u8>,
    /// The tools. The tools of a request are added to them. Header values may contain `{{secret:NAME}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolRef>,
    /// Limits of turns, time, tokens and cost.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
    /// The JSON Schema that the answers must follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// When repeated tool calls end a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<LoopDetection>,
    /// How often each tool may be called, by model-facing name. An empty object switches the defaults off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Whether older turns are summarised when the conversation no longer fits the model's context window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// How many levels of runs may be below the agent's runs, 0 to 8; absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u8>,
    /// The policy of the agent's tool calls. It applies in addition to the policy of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The labels of the agent's runs. The labels of a request replace them.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// A text of an agent that explains how to do a recurring task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The heading.
    pub name: String,
    /// When the skill applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text for the model.
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
