//! Persisted agents.

use super::super::{compaction, documents, guards, spec};
use super::camel_case::Alias;
use crate::check::unknown::UnknownFields;
use crate::definition::{AgentDefinition, Skill};
use crate::limits;
use crate::policy;
use crate::read::{Fields, Node};
use crate::tools;

/// Definitions are written by hand.
const UNKNOWN: UnknownFields = UnknownFields::Refused;

/// Other names of fields.
pub(super) const ALIASES: [Alias; 3] = [
    Alias {
        from: "prompt",
        to: "systemPrompt",
    },
    Alias {
        from: "model",
        to: "modelId",
    },
    Alias {
        from: "fallbackModel",
        to: "fallbackModelId",
    },
];

pub(super) fn read(fields: &Fields<'_, '_>) -> AgentDefinition {
    let prompt = fields.required_text("systemPrompt", limits::MESSAGE_MAX_CHARS);
    if prompt.is_some_and(|prompt| prompt.trim().is_empty()) {
        fields.refuse("systemPrompt", "must not be blank");
    }
    let text = |key, max| {
        let text = fields.text(key, max);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let agent = AgentDefinition {
        name: text("name", limits::LABEL_MAX_CHARS),
        description: text("description", limits::DESCRIPTION_MAX_CHARS),
        system_prompt: prompt.unwrap_or_default().to_owned(),
        skills: skills(fields),
        model_id: text("modelId", limits::REFERENCE_MAX_CHARS),
        fallback_model_id: text("fallbackModelId", limits::REFERENCE_MAX_CHARS),
        reasoning_level: spec::reasoning_level(fields),
        tools: tools::read(fields).unwrap_or_default(),
        budgets: guards::budgets(fields, UNKNOWN),
        output_schema: documents::output_schema(fields),
        loop_detection: guards::loop_detection(fields, UNKNOWN),
        tool_budgets: guards::tool_budgets(fields, UNKNOWN),
        compaction: compaction::compaction(fields, UNKNOWN),
        max_depth: guards::max_depth(fields),
        policy: policy::read(fields),
        metadata: documents::metadata(fields),
    };
    fields.accept(&["slug"]);
    fields.refuse_unread();
    agent
}

/// All skills are read in every turn, so together they have the limit of one message.
fn skills(fields: &Fields<'_, '_>) -> Vec<Skill> {
    let skills = fields.list("skills", limits::SKILLS_MAX, skill);
    let skills = skills.unwrap_or_default();
    let chars: usize = skills.iter().map(|skill| skill.text.chars().count()).sum();
    let max = limits::MESSAGE_MAX_CHARS;
    if chars > max {
        fields.refuse(
            "skills",
            format_args!("the texts must have at most {max} characters together, got {chars}"),
        );
    }
    skills
}

fn skill(node: Node<'_, '_>) -> Option<Skill> {
    let fields = node.fields()?;
    let name = fields.required_text("name", limits::LABEL_MAX_CHARS);
    let text = fields.required_text("text", limits::MESSAGE_MAX_CHARS);
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS);
    fields.refuse_unread();
    Some(Skill {
        name: name?.to_owned(),
        description: description.map(str::to_owned),
        text: text?.to_owned(),
    })
}
