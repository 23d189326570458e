//! The part of a spec that runs and sessions share.

use serde_json::Value;

use super::fields::{Fields, integer};
use super::issues::{Issues, Short};
use super::{documents, guards, tools};
use crate::id::AgentId;
use crate::limits;
use crate::spec::AgentSpec;

/// Every field of a run's body.
pub(super) const FIELDS_OF_RUNS: [&str; 14] = [
    "name",
    "agentId",
    "systemPrompt",
    "prompt",
    "messages",
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

/// Whether `messages` carries the instructions that `systemPrompt` would.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemMessage {
    Present,
    Absent,
}

/// Looks for a system message that says something. The raw body is asked rather than the messages that were read: a
/// list with another mistake in it must not be blamed for a missing prompt as well.
pub(super) fn system_message(fields: &Fields<'_, '_>) -> SystemMessage {
    let messages = fields.get("messages").and_then(Value::as_array);
    let instructs = |message: &Value| {
        message["role"] == "system"
            && match &message["content"] {
                Value::Array(parts) => parts.iter().any(|part| says_something(&part["text"])),
                content => says_something(content),
            }
    };
    if messages.is_some_and(|messages| messages.iter().any(instructs)) {
        SystemMessage::Present
    } else {
        SystemMessage::Absent
    }
}

fn says_something(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Who asks for a plan alone does not want anything done. Other fields that this server does not know yet take nothing away when they are
/// ignored; this one would.
pub(super) fn refuse_plan_only(fields: &Fields<'_, '_>, issues: &mut Issues) {
    let plan = fields.get("plan");
    if plan.is_some_and(|plan| plan["planOnly"] == true) {
        let message = "this server makes no plans yet, and would carry out what is asked instead; leave `planOnly` out if it should";
        fields.refuse("plan", message, issues);
    }
}

pub(super) fn read(
    fields: &Fields<'_, '_>,
    system: SystemMessage,
    issues: &mut Issues,
) -> AgentSpec {
    refuse_plan_only(fields, issues);
    let agent_id = agent_id(fields, issues);
    let needs_prompt = fields.get("agentId").is_none() && system == SystemMessage::Absent;
    AgentSpec {
        name: fields
            .text("name", limits::LABEL_MAX_CHARS, issues)
            .map(str::to_owned),
        agent_id,
        agent_version: None,
        system_prompt: system_prompt(fields, needs_prompt, issues),
        model_id: model_id(fields, "modelId", issues),
        fallback_model_id: model_id(fields, "fallbackModelId", issues),
        active_model_id: None,
        reasoning_level: reasoning_level(fields, issues),
        tools: tools::read(fields, issues).unwrap_or_default(),
        budgets: guards::budgets(fields, issues),
        output_schema: documents::output_schema(fields, issues),
        loop_detection: guards::loop_detection(fields, issues),
        tool_budgets: guards::tool_budgets(fields, issues),
        metadata: documents::metadata(fields, issues),
    }
}

fn model_id(fields: &Fields<'_, '_>, key: &str, issues: &mut Issues) -> Option<String> {
    fields
        .text(key, limits::REFERENCE_MAX_CHARS, issues)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

fn agent_id(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<AgentId> {
    let text = fields.str("agentId", issues)?;
    let id = AgentId::parse(text);
    if id.is_none() {
        let wanted = "expected `agent_` and 1 to 64 of [A-Za-z0-9_-]";
        fields.refuse(
            "agentId",
            format_args!("{wanted}, got `{}`", Short(text)),
            issues,
        );
    }
    id
}

fn system_prompt(fields: &Fields<'_, '_>, needed: bool, issues: &mut Issues) -> Option<String> {
    let prompt = match fields.get("systemPrompt") {
        Some(_) => fields.text("systemPrompt", limits::MESSAGE_MAX_CHARS, issues)?,
        None => "",
    };
    // A blank prompt is no prompt: providers refuse it, and an agent's own must not be shadowed by it.
    let prompt = Some(prompt).filter(|text| !text.trim().is_empty());
    if prompt.is_none() && needed {
        let message = "is required unless `agentId` or a non-empty system message is given";
        fields.refuse("systemPrompt", message, issues);
    }
    prompt.map(str::to_owned)
}

/// `off`, `low`, `medium`, `high` are anchors on the scale of 0–100.
pub(super) fn reasoning_level(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<u8> {
    let value = fields.get("reasoningLevel")?;
    let path = fields.path.key("reasoningLevel");
    if let Some(word) = value.as_str() {
        let level = match word {
            "off" => Some(0),
            "low" => Some(30),
            "medium" => Some(50),
            "high" => Some(80),
            _ => None,
        };
        if level.is_none() {
            let wanted = "expected `off`, `low`, `medium`, `high` or an integer from 0 to 100";
            issues.add(&path, format_args!("{wanted}, got `{}`", Short(word)));
        }
        return level;
    }
    let range = 0..=u64::from(limits::REASONING_LEVEL_MAX);
    integer(value, range, &path, issues).and_then(|level| u8::try_from(level).ok())
}
