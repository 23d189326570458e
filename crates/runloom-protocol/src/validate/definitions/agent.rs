//! Persisted agents.

use super::super::fields::{Fields, within_count};
use super::super::issues::{Issues, Path};
use super::super::{documents, guards, spec, tools};
use crate::definition::{AgentDefinition, Skill};
use crate::limits;

const KNOWN: [&str; 14] = [
    "slug",
    "name",
    "description",
    "systemPrompt",
    "skills",
    "modelId",
    "fallbackModelId",
    "reasoningLevel",
    "tools",
    "budgets",
    "outputSchema",
    "loopDetection",
    "toolBudgets",
    "metadata",
];

pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> AgentDefinition {
    fields.only(&KNOWN, issues);
    guards::refuse_unknown(fields, issues);
    let prompt = fields.required_text("systemPrompt", limits::MESSAGE_MAX_CHARS, issues);
    if prompt.is_some_and(|prompt| prompt.trim().is_empty()) {
        fields.refuse("systemPrompt", "must not be blank", issues);
    }
    let text = |key, max, issues: &mut Issues| {
        let text = fields.text(key, max, issues);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    AgentDefinition {
        name: text("name", limits::LABEL_MAX_CHARS, issues),
        description: text("description", limits::DESCRIPTION_MAX_CHARS, issues),
        system_prompt: prompt.unwrap_or_default().to_owned(),
        skills: skills(fields, issues),
        model_id: text("modelId", limits::REFERENCE_MAX_CHARS, issues),
        fallback_model_id: text("fallbackModelId", limits::REFERENCE_MAX_CHARS, issues),
        reasoning_level: spec::reasoning_level(fields, issues),
        tools: tools::read(fields, issues).unwrap_or_default(),
        budgets: guards::budgets(fields, issues),
        output_schema: documents::output_schema(fields, issues),
        loop_detection: guards::loop_detection(fields, issues),
        tool_budgets: guards::tool_budgets(fields, issues),
        metadata: documents::metadata(fields, issues),
    }
}

fn skills(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<Skill> {
    let Some(array) = fields.array("skills", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("skills");
    if !within_count(array.len(), limits::SKILLS_MAX, &path, issues) {
        return Vec::new();
    }
    let mut skills = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        let path = path.index(index);
        skills.extend(Fields::of(value, &path, issues).and_then(|fields| skill(&fields, issues)));
    }
    total_text(&skills, &path, issues);
    skills
}

fn skill(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<Skill> {
    fields.only(&["name", "description", "text"], issues);
    let name = fields.required_text("name", limits::LABEL_MAX_CHARS, issues);
    let text = fields.required_text("text", limits::MESSAGE_MAX_CHARS, issues);
    let description = fields.text("description", limits::DESCRIPTION_MAX_CHARS, issues);
    Some(Skill {
        name: name?.to_owned(),
        description: description.map(str::to_owned),
        text: text?.to_owned(),
    })
}

/// All skills are read in every turn, so together they have the limit of one message.
fn total_text(skills: &[Skill], path: &Path<'_>, issues: &mut Issues) {
    let chars: usize = skills.iter().map(|skill| skill.text.chars().count()).sum();
    let max = limits::MESSAGE_MAX_CHARS;
    if chars > max {
        issues.add(
            path,
            format_args!("the texts must have at most {max} characters together, got {chars}"),
        );
    }
}
