//! What a client asks for, as it goes over the wire.

use runloom_protocol::attachment::Attachment;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::{AgentSpec, Metadata, PromptMessage, Role};
use serde::Serialize;

/// The words that start a run: one text, or messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Prompt {
    /// One user message.
    Prompt(String),
    /// A conversation so far; the last message that is not `system` must be the user's.
    Messages(Vec<PromptMessage>),
}

impl Prompt {
    /// One user message with files. Without any it is the text alone.
    #[must_use]
    pub fn with_files(text: impl Into<String>, files: Vec<Attachment>) -> Self {
        if files.is_empty() {
            return Self::Prompt(text.into());
        }
        Self::Messages(vec![PromptMessage {
            attachments: files,
            ..PromptMessage::new(Role::User, text)
        }])
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Prompt(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Prompt(text)
    }
}

/// `POST /agent-runs`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRequest {
    /// The agent: model, system prompt, tools, limits.
    #[serde(flatten)]
    pub spec: AgentSpec,
    /// What it is asked.
    #[serde(flatten)]
    pub prompt: Prompt,
    /// Makes a repetition of the request harmless: the server answers it with the first run.
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}

impl RunRequest {
    /// A run of an ephemeral agent on the workspace's default model.
    #[must_use]
    pub fn prompt(system_prompt: impl Into<String>, prompt: impl Into<Prompt>) -> Self {
        let spec = AgentSpec {
            system_prompt: Some(system_prompt.into()),
            ..AgentSpec::default()
        };
        Self::with_spec(spec, prompt)
    }

    /// A run of any spec.
    #[must_use]
    pub fn with_spec(spec: AgentSpec, prompt: impl Into<Prompt>) -> Self {
        Self {
            spec,
            prompt: prompt.into(),
            idempotency_key: None,
        }
    }
}

/// `POST /agent-sessions/{id}/messages`. What `spec` says of tools, reasoning, schema and guards replaces the
/// session's for this run only; its metadata is merged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageRequest {
    /// Only the fields that shall replace the session's.
    #[serde(flatten)]
    pub spec: AgentSpec,
    /// The text of the message.
    #[serde(flatten)]
    pub prompt: Prompt,
}

impl MessageRequest {
    /// A message that changes nothing of the session.
    #[must_use]
    pub fn new(prompt: impl Into<Prompt>) -> Self {
        Self {
            spec: AgentSpec::default(),
            prompt: prompt.into(),
        }
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFilter {
    /// Only runs in this state.
    pub status: Option<RunStatus>,
    /// Only runs of this model.
    pub model_id: Option<String>,
    /// Only runs of this persisted agent.
    pub agent_id: Option<String>,
    /// Only runs with all of these labels.
    pub metadata: Metadata,
    /// Page size, at most 200.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Whether the whole number is counted.
    pub include_total: bool,
}

impl RunFilter {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        let mut put = |key, value: Option<String>| query.extend(value.map(|value| (key, value)));
        put(
            "status",
            self.status.map(|status| status.as_str().to_owned()),
        );
        put("modelId", self.model_id.clone());
        put("agentId", self.agent_id.clone());
        put("limit", self.limit.map(|limit| limit.to_string()));
        put("cursor", self.cursor.clone());
        put(
            "includeTotal",
            self.include_total.then(|| "true".to_owned()),
        );
        for (key, value) in &self.metadata {
            put("metadata", Some(format!("{key}:{value}")));
        }
        query
    }
}
