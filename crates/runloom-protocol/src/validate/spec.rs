//! The part of a spec that runs and sessions share.

use serde_json::Value;

use super::{compaction, documents, guards};
pub(super) use crate::check::reasoning_level::reasoning_level;
use crate::check::reference::{agent_id, model_id};
use crate::check::unknown::UnknownFields;
use crate::limits;
use crate::policy;
use crate::read::Fields;
use crate::spec::AgentSpec;
use crate::tools;

/// Requests come from SDKs of any version.
const UNKNOWN: UnknownFields = UnknownFields::Ignored;

/// Whether `messages` carries the instructions that `systemPrompt` would.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemMessage {
    Present,
    Absent,
}

/// Looks for a system message that is not empty. It looks at the raw body, so that a list with another mistake does not
/// also yield the error of a missing prompt.
pub(super) fn system_message(fields: &Fields<'_, '_>) -> SystemMessage {
    let messages = fields.object().get("messages").and_then(Value::as_array);
    let instructs = |message: &Value| {
        message["role"] == "system"
            && match &message["content"] {
                Value::Array(parts) => parts.iter().any(|part| has_text(&part["text"])),
                content => has_text(content),
            }
    };
    if messages.is_some_and(|messages| messages.iter().any(instructs)) {
        SystemMessage::Present
    } else {
        SystemMessage::Absent
    }
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Ignoring `planOnly` would execute what the client only wants planned, so it is refused unlike other unknown fields.
pub(super) fn refuse_plan_only(fields: &Fields<'_, '_>) {
    let plan = fields.object().get("plan");
    if plan.is_some_and(|plan| plan["planOnly"] == true) {
        let message = "this server cannot plan without executing; leave `planOnly` out to execute the request";
        fields.refuse("plan", message);
    }
}

pub(super) fn read(fields: &Fields<'_, '_>, system: SystemMessage) -> AgentSpec {
    refuse_plan_only(fields);
    let agent_id = agent_id(fields);
    let prompt = if fields.has("agentId") || system == SystemMessage::Present {
        Prompt::Optional
    } else {
        Prompt::Required
    };
    AgentSpec {
        name: fields
            .text("name", limits::LABEL_MAX_CHARS)
            .map(str::to_owned),
        agent_id,
        agent_version: None,
        system_prompt: system_prompt(fields, prompt),
        model_id: model_id(fields, "modelId"),
        fallback_model_id: model_id(fields, "fallbackModelId"),
        active_model_id: None,
        reasoning_level: reasoning_level(fields),
        tools: tools::read(fields).unwrap_or_default(),
        budgets: guards::budgets(fields, UNKNOWN),
        output_schema: documents::output_schema(fields),
        loop_detection: guards::loop_detection(fields, UNKNOWN),
        tool_budgets: guards::tool_budgets(fields, UNKNOWN),
        compaction: compaction::compaction(fields, UNKNOWN),
        max_depth: guards::max_depth(fields),
        policy: policy::read(fields),
        applied_policies: Vec::new(),
        metadata: documents::metadata(fields),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prompt {
    Required,
    Optional,
}

fn system_prompt(fields: &Fields<'_, '_>, need: Prompt) -> Option<String> {
    let prompt = match fields.get("systemPrompt") {
        Some(node) => node.text(limits::MESSAGE_MAX_CHARS)?,
        None => "",
    };
    // A blank prompt counts as absent: providers refuse it, and it must not shadow the prompt of a persisted agent.
    let prompt = Some(prompt).filter(|text| !text.trim().is_empty());
    if prompt.is_none() && need == Prompt::Required {
        let message = "is required unless `agentId` or a non-empty system message is given";
        fields.refuse("systemPrompt", message);
    }
    prompt.map(str::to_owned)
}
