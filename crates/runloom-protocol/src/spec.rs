//! The spec of a run or a session: model, prompt, tools, limits. Everything in here has passed [`crate::validate`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attachment::Attachment;
pub use crate::budgets::Budgets;
use crate::id::AgentId;
use crate::policy::Policy;
use crate::tools::ToolRef;

/// Client labels of a run or session: flat strings, kept in a stable order.
pub type Metadata = BTreeMap<String, String>;

/// What an agent is: the part of a spec that runs and sessions share. Serialises to the `agentSpec` of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpec {
    /// A label for people; no effect on the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The persisted agent this spec builds on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Which version of that agent; set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<u64>,
    /// The system prompt of an ephemeral agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The model as the client wrote it; see the catalog for the accepted forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The model that takes over when that one is out of service, in the same forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model_id: Option<String>,
    /// The model that a session stays on since one of its runs fell back; set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_model_id: Option<String>,
    /// 0–100; `None` when the client did not ask for reasoning either way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<u8>,
    /// The tools, in the client's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolRef>,
    /// Limits of turns, time and money.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
    /// The JSON Schema that the final text must follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// `None` = the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<LoopDetection>,
    /// `None` = the defaults; an empty map = no budgets at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
    /// Levels of runs below this one, 0–8; `None` = 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u8>,
    /// The policy of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Policies that apply in addition: those of the persisted agent and of the runs above; set by the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied_policies: Vec<Policy>,
    /// Client labels.
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

/// The shape that the final text must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputSchema {
    /// `^[a-zA-Z0-9_-]{1,64}$`, default `output`.
    #[serde(default = "default_schema_name")]
    pub name: String,
    /// A JSON Schema object, as the client wrote it.
    pub schema: Map<String, Value>,
    /// Whether a provider that cannot enforce the schema may answer anyway.
    #[serde(default, skip_serializing_if = "Enforcement::is_default")]
    pub enforcement: Enforcement,
}

fn default_schema_name() -> String {
    "output".to_owned()
}

/// How hard an [`OutputSchema`] is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// Enforced where the provider can; plain text otherwise, and the terminal event says so.
    #[default]
    BestEffort,
    /// Enforced, or the run fails.
    Strict,
}

impl Enforcement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Loop detection: switched off, or two thresholds with `hard > consecutive` (already made consistent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// How often one tool may be called in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolBudget {
    /// 0 switches the tool off.
    pub max_calls: u32,
}

/// Who speaks in a [`PromptMessage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One message of a prompt or of a session's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// Files beside it: with their bytes on the last user message of a request, without them in what a session remembers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Calls of the run that ended with this answer whose results later runs of the session are told; kept by the server and shown
    /// to no client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retained: Vec<RetainedCall>,
}

impl PromptMessage {
    /// Words and nothing else.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            attachments: Vec::new(),
            retained: Vec::new(),
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

/// `POST /agent-runs`, checked. `prompt` has become a single user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateRun {
    /// The agent.
    pub spec: AgentSpec,
    /// At least one message; the last one that is not `system` is the user's.
    pub messages: Vec<PromptMessage>,
}

/// `POST /agent-sessions`, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateSession {
    /// The default spec of the session's runs.
    pub spec: AgentSpec,
}

/// `POST /agent-sessions/{id}/messages`, checked. A `Some` replaces the session's value for this run only.
#[derive(Debug, Clone, PartialEq)]
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
    pub max_depth: Option<u8>,
    /// Replaces the session's policy.
    pub policy: Option<Policy>,
    /// Merged over the session's; these keys win.
    pub metadata: Metadata,
}

/// `POST /agent-runs/{id}/tool-results`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitToolResult {
    /// Which call is answered.
    pub tool_use_id: String,
    /// What the tool said.
    pub answer: ToolAnswer,
    /// Files beside a result; empty beside an error.
    pub files: Vec<Attachment>,
}

/// A file that a tool of the server made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFile {
    /// The name shown to the model.
    pub filename: String,
    /// An accepted attachment type.
    pub mime_type: String,
    /// Standard base64, already checked.
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

/// `POST /agent-runs/{id}/feedback`, checked. It replaces what was said of the run before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitFeedback {
    /// Good or bad.
    pub verdict: Verdict,
    /// Why, in the person's words.
    pub explanation: Option<String>,
    /// What the person saw.
    pub content_snapshot: Option<String>,
}

/// What somebody thinks of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
