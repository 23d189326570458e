//! How a run ends: tokens, model, error classes, the payloads of the terminal events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Token counts. Cached tokens are part of the input, reasoning tokens part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Tokens {
    /// All billed input: uncached, read from a cache, written to a cache, and tool definitions.
    pub input_tokens: u64,
    /// The part of the input that was read from a cache.
    pub cached_tokens: u64,
    /// The part of the output that was reasoning.
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

/// The model of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The catalog id.
    pub id: String,
    /// The provider: `openai`, `anthropic`, `google` and others.
    pub provider: String,
    /// The vendor's name of the model.
    pub vendor_model_id: String,
    /// The reasoning effort: `off`, `low`, `medium` or `high`. Absent when not requested or not supported.
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

/// How an output schema was enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StructuredOutput {
    /// Whether the spec has an `outputSchema`.
    pub schema_requested: bool,
    /// Whether the schema was enforced.
    pub schema_enforced: bool,
    /// How the schema was enforced.
    pub enforcement_mechanism: EnforcementMechanism,
    /// Whether the provider refused the schema and the turn was repeated without it.
    pub unconstrained_fallback_occurred: bool,
}

/// How an output schema was enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EnforcementMechanism {
    /// By the provider's own schema mode.
    NativeSchema,
    /// By a hidden tool whose arguments are the answer.
    SyntheticTool,
    /// Not at all.
    #[default]
    None,
}

/// Why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The provider's rate limit was reached, also after retries.
    RateLimit,
    /// The provider is out of capacity.
    Overloaded,
    /// An internal error of the provider or of this server.
    Server,
    /// The conversation is longer than the context window of the model.
    ContextWindow,
    /// The output limit was reached before the answer was complete.
    Truncation,
    /// The provider refused the request as malformed.
    InvalidRequest,
    /// The provider refused the server's credential.
    Auth,
    /// The provider did not respond in time.
    Timeout,
    /// A time limit of this server ended the run.
    LocalTimeout,
    /// The provider started to respond and then stopped or took too long.
    UpstreamDeadline,
    /// A budget of cost or tokens is used up.
    BudgetExceeded,
    /// The provider refused the output schema.
    StructuredOutputSchemaRejected,
    /// The provider does not support output schemas.
    StructuredOutputNotSupported,
    /// The answer does not follow the output schema.
    StructuredOutputNotEnforced,
    /// Another reason.
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

/// The part of the sums of a run that the runs below it used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentUsage {
    /// The number of runs below that have ended.
    pub runs: u32,
    /// Their tokens.
    pub tokens: Tokens,
    /// The number of their model calls.
    pub turns: u32,
    /// Their cost in US dollars. Absent when none of their models has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Payload of `result`: the run succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Always `true`.
    pub ok: bool,
    /// Always `success`.
    pub subtype: String,
    /// The answer.
    pub text: String,
    /// Tokens over all turns.
    pub tokens: Tokens,
    /// The number of model calls.
    pub turns: u32,
    /// The model that gave the answer.
    pub model: ModelInfo,
    /// How the output schema was enforced.
    pub structured_output: StructuredOutput,
    /// The cost in US dollars. Absent when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used. Absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// Payload of `error`: the run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// The error message.
    pub error: String,
    /// The same value as `errorClass`.
    pub code: ErrorClass,
    /// The class of the failure.
    pub error_class: ErrorClass,
    /// Why the failing turn ended. Absent when it did not end in the usual way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The text up to the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_text: Option<String>,
    /// Whether a new attempt may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Tokens over all turns.
    pub tokens: Tokens,
    /// The number of model calls, including the failing one.
    pub turns: u32,
    /// The model.
    pub model: ModelInfo,
    /// How the output schema was enforced.
    pub structured_output: StructuredOutput,
    /// The HTTP status of the provider's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_status: Option<u16>,
    /// The provider's own error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_code: Option<String>,
    /// The cost in US dollars. Absent when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used. Absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// Payload of `cancelled`: the reason, and what was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    /// The reason: `user`, `session_ended` and others.
    pub reason: String,
    /// When the cancellation was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<String>,
    /// When the run had stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// What was interrupted: `model`, or the names of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
    /// Tokens up to the cancellation, as far as the provider reported them.
    #[serde(default)]
    pub tokens: Tokens,
    /// The number of model calls.
    #[serde(default)]
    pub turns: u32,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInfo>,
    /// The cost in US dollars. Absent when the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The part of the sums that runs below used. Absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentUsage>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FailureReason {
    /// The class of the failure.
    pub error_class: ErrorClass,
    /// Why the failing turn ended.
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
