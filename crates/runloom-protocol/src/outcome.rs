//! How a run ends: tokens, model, error classes, the payloads of the terminal events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sums over every model invocation of a run. `cached ⊂ input`, `reasoning ⊂ output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tokens {
    /// All billable input: fresh, cached read, cache creation, tool prompt.
    pub input_tokens: u64,
    /// The part of the input that was read from a cache.
    pub cached_tokens: u64,
    /// The part of the output that was thinking.
    pub reasoning_tokens: u64,
    /// All output.
    pub output_tokens: u64,
}

impl Tokens {
    /// Adds another invocation's counts, without ever wrapping.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Which model ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// Catalog id.
    pub id: String,
    /// `openai`, `anthropic`, … as section 8 of the protocol lists them.
    pub provider: String,
    /// The vendor's own name.
    pub vendor_model_id: String,
    /// `off`, `low`, `medium`, `high`; omitted when not asked or not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// Maps a reasoning level to its effort word.
#[must_use]
pub fn effort_of_level(level: u8) -> &'static str {
    match level {
        0 => "off",
        1..=35 => "low",
        36..=65 => "medium",
        _ => "high",
    }
}

/// What became of a requested output schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StructuredOutput {
    /// The spec had an `outputSchema`.
    pub schema_requested: bool,
    /// The provider was held to it.
    pub schema_enforced: bool,
    /// By which means.
    pub enforcement_mechanism: EnforcementMechanism,
    /// The schema was refused and the turn repeated without it.
    pub unconstrained_fallback_occurred: bool,
}

/// By which means an output schema was enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementMechanism {
    /// The provider's own schema mode.
    NativeSchema,
    /// A hidden tool whose arguments are the answer.
    SyntheticTool,
    /// Not at all.
    #[default]
    None,
}

/// Why a run failed, in the words of the protocol. `code` on the wire is the same string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The provider said 429 and kept saying it.
    RateLimit,
    /// The provider is out of capacity.
    Overloaded,
    /// The provider, or this server, failed inside.
    Server,
    /// The conversation is longer than the model can read.
    ContextWindow,
    /// The output budget ran out in the middle of the answer.
    Truncation,
    /// The provider refused the request as malformed.
    InvalidRequest,
    /// The provider refused our credential.
    Auth,
    /// The provider did not answer in time.
    Timeout,
    /// A limit of this server's clock ended the run.
    LocalTimeout,
    /// The provider started to answer and went silent or took too long.
    UpstreamDeadline,
    /// A budget of money or tokens is used up.
    BudgetExceeded,
    /// The provider refused the output schema.
    StructuredOutputSchemaRejected,
    /// The provider knows no output schemas.
    StructuredOutputNotSupported,
    /// The answer does not follow the schema.
    StructuredOutputNotEnforced,
    /// None of the above.
    #[serde(other)]
    Unknown,
}

impl ErrorClass {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::ContextWindow => "context_window",
            Self::Truncation => "truncation",
            Self::InvalidRequest => "invalid_request",
            Self::Auth => "auth",
            Self::Timeout => "timeout",
            Self::LocalTimeout => "local_timeout",
            Self::UpstreamDeadline => "upstream_deadline",
            Self::BudgetExceeded => "budget_exceeded",
            Self::StructuredOutputSchemaRejected => "structured_output_schema_rejected",
            Self::StructuredOutputNotSupported => "structured_output_not_supported",
            Self::StructuredOutputNotEnforced => "structured_output_not_enforced",
            Self::Unknown => "unknown",
        }
    }
}

/// Canonical reasons for the end of a turn.
pub mod finish_reason {
    /// The model was done.
    pub const END_TURN: &str = "end_turn";
    /// The model asked for tools.
    pub const TOOL_USE: &str = "tool_use";
    /// The output budget ran out.
    pub const MAX_TOKENS: &str = "max_tokens";
    /// The model refused.
    pub const REFUSAL: &str = "refusal";
    /// The provider could not parse its own function call.
    pub const MALFORMED_FUNCTION_CALL: &str = "malformed_function_call";
    /// A stop sequence was met.
    pub const STOP_SEQUENCE: &str = "stop_sequence";
    /// A filter cut the answer.
    pub const CONTENT_FILTER: &str = "content_filter";
}

/// The part of a run's sums that the runs below it used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentUsage {
    /// Runs below that have ended.
    pub runs: u32,
    /// Sums of their model calls.
    pub tokens: Tokens,
    /// Their model invocations.
    pub turns: u32,
    /// Money, when any of their models has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Payload of `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Always true.
    pub ok: bool,
    /// Always `success`.
    pub subtype: String,
    /// The answer.
    pub text: String,
    /// Sums of the run.
    pub tokens: Tokens,
    /// Model invocations.
    pub turns: u32,
    /// The model that answered.
    pub model: ModelInfo,
    /// What became of the output schema.
    pub structured_output: StructuredOutput,
    /// Money, when the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used; left out when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// Payload of `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// What happened, for people.
    pub error: String,
    /// The same word as `error_class`.
    pub code: ErrorClass,
    /// What happened, for programs.
    pub error_class: ErrorClass,
    /// Reason of the failing turn, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// What was said before it broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_text: Option<String>,
    /// Whether trying again may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Sums of the run.
    pub tokens: Tokens,
    /// Model invocations, the failing one included.
    pub turns: u32,
    /// The model.
    pub model: ModelInfo,
    /// What became of the output schema.
    pub structured_output: StructuredOutput,
    /// HTTP status of the provider's refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_status: Option<u16>,
    /// The provider's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_code: Option<String>,
    /// Money, when the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used; left out when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// Payload of `cancelled`: the reason, and a receipt of what was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    /// `user`, `session_ended`, …
    pub reason: String,
    /// When the cancel was accepted (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<String>,
    /// When nothing of the run was running any more (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// What the cancel interrupted: `model`, or the names of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
    /// Sums up to the cancel, as far as the provider told.
    #[serde(default)]
    pub tokens: Tokens,
    /// Model invocations.
    #[serde(default)]
    pub turns: u32,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInfo>,
    /// Money, when the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used; left out when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// `failureReason` of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureReason {
    /// The class of the `error` event.
    pub error_class: ErrorClass,
    /// Reason of the failing turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
}

/// A tool's output as a model reads it.
#[must_use]
pub fn text_of_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
