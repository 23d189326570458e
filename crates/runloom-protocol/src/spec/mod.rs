//! The spec of a run or a session: model, prompt, tools, limits. Everything in here has passed [`crate::validate`].

#[cfg(feature = "schema")]
pub(crate) mod body;
mod compaction;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attachment::Attachment;
pub use crate::budgets::Budgets;
use crate::id::AgentId;
use crate::policy::Policy;
use crate::tools::ToolRef;
pub use compaction::{CompactedHistory, Compaction, CompactionSettings};

/// Client labels of a run or session: flat strings, kept in a stable order.
pub type Metadata = BTreeMap<String, String>;

/// The part of a spec that runs and sessions share: agent, model, prompt, tools and limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpec {
    /// A label; it has no effect on the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The stored agent that the spec builds on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The version of the stored agent. Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("readOnly" = true)))]
    pub agent_version: Option<u64>,
    /// The system prompt. Required unless `agentId` is set or `messages` has a system message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::MESSAGE_MAX_CHARS)))]
    pub system_prompt: Option<String>,
    /// The model: a catalog id, `platform:<offering>`, `provider:<id>`, `provider:<id>:<model>`, `<provider>/<model>`,
    /// `<provider>:<model>` or a vendor's model id. Absent means the workspace's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The model that takes over when `modelId` is out of service, in the same forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model_id: Option<String>,
    /// The model that the session uses since one of its runs fell back. Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("readOnly" = true)))]
    pub active_model_id: Option<String>,
    /// How much the model reasons, from 0 (off) to 100. Requests may also say `off`, `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::check::reasoning_level::ReasoningLevel")
    )]
    pub reasoning_level: Option<u8>,
    /// The tools that the model can call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::TOOLS_MAX)))]
    pub tools: Vec<ToolRef>,
    /// Limits of turns, time, tokens and cost.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
    /// The JSON Schema that the answer must follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// When repeated tool calls end the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<LoopDetection>,
    /// How often each tool may be called, by model-facing name. An empty object switches the defaults off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Whether older turns are summarised when the conversation no longer fits the model's context window. Absent means
    /// `true` in sessions and `false` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// How many levels of runs may be below this one, 0 to 8; absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u8>,
    /// Which tool calls are allowed, refused, or need an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Policies that apply in addition: those of the stored agent and of the runs above. Set by the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("readOnly" = true)))]
    pub applied_policies: Vec<Policy>,
    /// The client's labels: at most 16, and 4 KB together. Keys have 1 to 64 of `[A-Za-z0-9._-]`, values at most 256
    /// characters.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl AgentSpec {
    /// Every policy that applies to the calls of the run, each with its path for messages.
    pub fn policies(&self) -> impl Iterator<Item = (String, &Policy)> {
        let applied = self.applied_policies.iter().enumerate();
        let own = self
            .policy
            .iter()
            .map(|policy| ("policy".to_owned(), policy));
        own.chain(applied.map(|(index, policy)| (format!("appliedPolicies[{index}]"), policy)))
    }
}

/// The JSON Schema that the answer must follow, at most 32 KB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutputSchema {
    /// The name of the schema for the model, `^[a-zA-Z0-9_-]{1,64}$`.
    #[serde(default = "default_schema_name")]
    pub name: String,
    /// The JSON Schema, unchanged.
    pub schema: Map<String, Value>,
    /// What happens when the provider cannot enforce the schema.
    #[serde(default, skip_serializing_if = "Enforcement::is_default")]
    pub enforcement: Enforcement,
}

fn default_schema_name() -> String {
    "output".to_owned()
}

/// What happens when the provider cannot enforce an output schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The answer is plain text, and the terminal event says so.
    #[default]
    BestEffort,
    /// The run fails.
    Strict,
}

impl Enforcement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When repeated tool calls end the run: `false` for never, or two thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "body::LoopDetection"))]
pub enum LoopDetection {
    /// `false` on the wire.
    Off,
    /// Thresholds in equal tool turns in a row.
    On {
        /// From here on the batch is not executed and the model is nudged.
        consecutive: u32,
        /// From here on one tools-disabled turn ends the run.
        hard: u32,
    },
}

impl Default for LoopDetection {
    fn default() -> Self {
        Self::On {
            consecutive: crate::limits::LOOP_CONSECUTIVE_DEFAULT,
            hard: crate::limits::LOOP_HARD_DEFAULT,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LoopDetectionWire {
    Switch(bool),
    #[serde(rename_all = "camelCase")]
    Thresholds {
        consecutive_threshold: u32,
        hard_cutoff_threshold: u32,
    },
}

impl Serialize for LoopDetection {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Off => LoopDetectionWire::Switch(false),
            Self::On { consecutive, hard } => LoopDetectionWire::Thresholds {
                consecutive_threshold: consecutive,
                hard_cutoff_threshold: hard,
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LoopDetection {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match LoopDetectionWire::deserialize(deserializer)? {
            LoopDetectionWire::Switch(false) => Self::Off,
            LoopDetectionWire::Switch(true) => Self::default(),
            LoopDetectionWire::Thresholds {
                consecutive_threshold,
                hard_cutoff_threshold,
            } => Self::On {
                consecutive: consecutive_threshold,
                hard: hard_cutoff_threshold,
            },
        })
    }
}

/// How often a tool may be called in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolBudget {
    /// The number of calls, 0 to 1000; 0 switches the tool off.
    pub max_calls: u32,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message of a prompt or of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptMessage {
    /// Of a run that did not succeed: later runs of the session are told it, clients are not shown it. First, so that a
    /// store finds it at the beginning of the JSON text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// The author of the message.
    pub role: Role,
    /// The text of the message.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::MESSAGE_MAX_CHARS)))]
    pub content: String,
    /// The files of the message. In requests only on the last user message, with their content; in responses without
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::ATTACHMENTS_MAX)))]
    pub attachments: Vec<Attachment>,
    /// Calls of the run that ended with this answer whose results later runs of the session are told; kept by the
    /// server and shown to no client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub retained: Vec<RetainedCall>,
    /// What later runs of the session read in place of the messages before this one; kept by the server and shown to
    /// no client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub compacted: Option<CompactedHistory>,
}

impl PromptMessage {
    /// Words and nothing else.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            unfinished: false,
            role,
            content: content.into(),
            attachments: Vec::new(),
            retained: Vec::new(),
            compacted: None,
        }
    }
}

/// A call of a tool with `retain`, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetainedCall {
    /// `tu_…`.
    pub id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments.
    pub input: Value,
    /// What the tool said.
    pub output: String,
}

/// A request to start a run: a spec and exactly one of `prompt` and `messages`.
//
// After validation, `prompt` is a single user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "body::CreateRun"))]
pub struct CreateRun {
    /// The agent.
    pub spec: AgentSpec,
    /// At least one message; the last one that is not `system` is the user's.
    pub messages: Vec<PromptMessage>,
}

/// A request to create a session: the default spec of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "AgentSpec"))]
pub struct CreateSession {
    /// The default spec of the session's runs.
    pub spec: AgentSpec,
}

/// A message to a session: exactly one of `prompt` and `messages`. Every other field replaces the session's value for
/// this run only; `metadata` is merged.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "body::CreateMessage"))]
pub struct CreateMessage {
    /// As in [`CreateRun`].
    pub messages: Vec<PromptMessage>,
    /// Replaces the session's tools.
    pub tools: Option<Vec<ToolRef>>,
    /// Replaces the session's level.
    pub reasoning_level: Option<u8>,
    /// Replaces the session's schema.
    pub output_schema: Option<OutputSchema>,
    /// Replaces the session's thresholds.
    pub loop_detection: Option<LoopDetection>,
    /// Replaces the session's budgets.
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Replaces each limit that it names.
    pub budgets: Budgets,
    /// Replaces the session's value.
    pub compaction: Option<Compaction>,
    /// Replaces the session's value.
    pub max_depth: Option<u8>,
    /// Replaces the session's policy.
    pub policy: Option<Policy>,
    /// Merged over the session's; these keys win.
    pub metadata: Metadata,
}

/// The result of a client tool call: exactly one of `result` and `error`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "body::SubmitToolResult"))]
pub struct SubmitToolResult {
    /// Which call is answered.
    pub tool_use_id: String,
    /// What the tool said.
    pub answer: ToolAnswer,
    /// Files beside a result; empty beside an error.
    pub files: Vec<Attachment>,
}

/// A file of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolFile {
    /// The file name that the model sees, 1 to 255 characters.
    pub filename: String,
    /// The media type; the accepted types are those of attachments.
    pub mime_type: String,
    /// The content in standard base64.
    pub data: String,
}

/// A client's answer to a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolAnswer {
    /// The tool's output, ≤ 2 MB.
    Result(String),
    /// Why there is none, ≤ 8 KB.
    Error(String),
}

/// Feedback of a user on a run. It replaces earlier feedback on the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename_all = "camelCase"))]
pub struct SubmitFeedback {
    /// The verdict.
    pub verdict: Verdict,
    /// The reason that the user gave.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::FEEDBACK_EXPLANATION_MAX_CHARS)))]
    pub explanation: Option<String>,
    /// The text that the user saw.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::FEEDBACK_SNAPSHOT_MAX_CHARS)))]
    pub content_snapshot: Option<String>,
}

/// The verdict of a user on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Thumbs up.
    Up,
    /// Thumbs down.
    Down,
}

impl Verdict {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Down => "DOWN",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "UP" => Some(Self::Up),
            "DOWN" => Some(Self::Down),
            _ => None,
        }
    }
}
