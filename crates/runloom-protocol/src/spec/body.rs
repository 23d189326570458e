//! Request bodies as clients write them, for the OpenAPI document: where validation reads a body into another type, the
//! type here has the fields of the body. Only with the feature `schema`.

#![expect(dead_code, reason = "these types are described, never constructed")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    AgentSpec, Compaction as CheckedCompaction, LoopDetection as CheckedLoopDetection, Metadata,
    OutputSchema, PromptMessage, ToolBudget, ToolFile,
};
use crate::budgets::Budgets;
use crate::check::reasoning_level::ReasoningLevel;
use crate::limits;
use crate::policy::Policy;
use crate::tools::ToolRef;

/// The body of [`crate::spec::CreateRun`].
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct CreateRun {
    /// The user's message. Exactly one of `prompt` and `messages` is required.
    #[schemars(length(min = 1, max = limits::MESSAGE_MAX_CHARS))]
    pub(crate) prompt: Option<String>,
    /// The conversation; the last message that is not a system message is the user's.
    #[schemars(length(min = 1, max = limits::MESSAGES_MAX))]
    pub(crate) messages: Option<Vec<PromptMessage>>,
    /// The spec.
    #[schemars(flatten)]
    pub(crate) spec: AgentSpec,
}

/// The body of [`crate::spec::CreateMessage`].
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct CreateMessage {
    /// The user's message. Exactly one of `prompt` and `messages` is required.
    #[schemars(length(min = 1, max = limits::MESSAGE_MAX_CHARS))]
    pub(crate) prompt: Option<String>,
    /// The new messages; the last message that is not a system message is the user's.
    #[schemars(length(min = 1, max = limits::MESSAGES_MAX))]
    pub(crate) messages: Option<Vec<PromptMessage>>,
    /// The tools that the model can call, in place of the session's.
    #[schemars(length(max = limits::TOOLS_MAX))]
    pub(crate) tools: Option<Vec<ToolRef>>,
    /// How much the model reasons.
    pub(crate) reasoning_level: Option<ReasoningLevel>,
    /// The JSON Schema that the answer must follow.
    pub(crate) output_schema: Option<OutputSchema>,
    /// When repeated tool calls end the run.
    pub(crate) loop_detection: Option<CheckedLoopDetection>,
    /// How often each tool may be called, by model-facing name.
    pub(crate) tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Whether older turns are summarised, in place of the session's setting.
    pub(crate) compaction: Option<CheckedCompaction>,
    /// Limits of the run; each one replaces the session's.
    pub(crate) budgets: Option<Budgets>,
    /// Which tool calls are allowed, refused, or need an approval.
    pub(crate) policy: Option<Policy>,
    /// Labels, merged over the session's.
    pub(crate) metadata: Option<Metadata>,
}

/// The body of [`crate::spec::SubmitToolResult`].
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct SubmitToolResult {
    /// The `toolUseId` of the `local_tool_call`.
    #[schemars(length(min = 1, max = limits::TOOL_USE_ID_MAX_CHARS))]
    pub(crate) tool_use_id: String,
    /// The output of the tool, at most 2 MB; may be empty.
    pub(crate) result: Option<String>,
    /// Why there is no output, at most 8 KB.
    pub(crate) error: Option<String>,
    /// Files of a `result`, 5 MB together when decoded. The model gets them with the result.
    #[schemars(length(max = limits::TOOL_FILES_MAX))]
    pub(crate) files: Option<Vec<ToolFile>>,
}

/// A switch, or settings.
pub(crate) struct Compaction;

impl JsonSchema for Compaction {
    fn schema_name() -> Cow<'static, str> {
        "Compaction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "boolean", "description": "`false` switches compaction off, `true` means the defaults."},
                {
                    "type": "object",
                    "properties": {
                        "atFraction": {
                            "type": "number",
                            "description": "The share of the context window at which older turns are summarised.",
                            "minimum": limits::COMPACTION_FRACTION_MIN,
                            "maximum": limits::COMPACTION_FRACTION_MAX,
                            "default": limits::COMPACTION_FRACTION_DEFAULT,
                        },
                        "keepTurns": {
                            "type": "integer",
                            "description": "How many of the last turns are kept as they are. Fewer are kept when \
                                they alone would not fit.",
                            "minimum": 0,
                            "maximum": limits::COMPACTION_KEEP_TURNS_MAX,
                            "default": limits::COMPACTION_KEEP_TURNS_DEFAULT,
                        },
                        "modelId": {
                            "type": "string",
                            "description": "The model that writes the summary. Absent means the model of the run.",
                        },
                        "instructions": {
                            "type": "string",
                            "description": "What the summary must keep.",
                            "maxLength": limits::COMPACTION_INSTRUCTIONS_MAX_CHARS,
                        },
                    },
                },
            ],
        })
    }
}

/// `false`, or thresholds.
pub(crate) struct LoopDetection;

impl JsonSchema for LoopDetection {
    fn schema_name() -> Cow<'static, str> {
        "LoopDetection".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "boolean", "description": "`false` switches loop detection off, `true` means the defaults."},
                {
                    "type": "object",
                    "properties": {
                        "consecutiveThreshold": {
                            "type": "integer",
                            "description": "After this many equal tool turns in a row, the calls are not executed \
                                and the model is told so.",
                            "minimum": limits::LOOP_CONSECUTIVE_MIN,
                            "maximum": limits::LOOP_THRESHOLD_MAX,
                            "default": limits::LOOP_CONSECUTIVE_DEFAULT,
                        },
                        "hardCutoffThreshold": {
                            "type": "integer",
                            "description": "After this many equal tool turns in a row, a finalise turn ends the run.",
                            "minimum": limits::LOOP_HARD_MIN,
                            "maximum": limits::LOOP_THRESHOLD_MAX,
                            "default": limits::LOOP_HARD_DEFAULT,
                        },
                    },
                },
            ],
        })
    }
}
