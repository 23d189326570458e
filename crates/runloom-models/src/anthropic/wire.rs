//! JSON of the Messages API: requests in full, responses only as far as they are read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members before `messages`.
#[derive(Debug, Serialize)]
pub(crate) struct Head<'a> {
    /// On Bedrock; a header otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) anthropic_version: Option<&'a str>,
    /// Not on Bedrock, where it is in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<&'a str>,
    pub(crate) max_tokens: u64,
    /// Not on Bedrock, where it is in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<[System; 1]>,
}

/// The system prompt, with its cache breakpoint.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub(crate) struct System {
    pub(crate) text: String,
    pub(crate) cache_control: CacheControl,
}

/// The thinking mode of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Thinking {
    Enabled { budget_tokens: u64 },
    Adaptive { display: Display },
    BetweenTools,
    Disabled,
}

/// How thinking is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Display {
    Summarized,
}

#[derive(Debug, Serialize)]
pub(crate) struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<OutputFormat<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum OutputFormat<'a> {
    JsonSchema {
        schema: &'a serde_json::Map<String, Value>,
    },
}

#[derive(Debug, Serialize)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Cow<'a, str>,
    pub(crate) input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<CacheControl>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToolChoice<'a> {
    Tool {
        name: &'a str,
        disable_parallel_tool_use: bool,
    },
    None,
}

/// A breakpoint of the prompt cache.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CacheControl {
    Ephemeral,
}

/// A content block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        title: &'a str,
    },
}

/// The source of a file.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
    Text { media_type: &'a str, data: &'a str },
}

/// A stored block, as far as it is checked before it is replayed.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
}

/// One event of the stream. The parts stay raw until the type says what they are.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    /// Index of the block that the event belongs to.
    pub(crate) index: Option<u64>,
    /// Of `message_start`: a [`MessageHead`].
    #[serde(borrow)]
    pub(crate) message: Option<&'a RawValue>,
    /// Of `content_block_start`: a [`StartBlock`].
    #[serde(borrow)]
    pub(crate) content_block: Option<&'a RawValue>,
    /// Of `content_block_delta`: a [`Delta`]; of `message_delta`: a [`MessageEnd`].
    #[serde(borrow)]
    pub(crate) delta: Option<&'a RawValue>,
    /// Of `message_delta`: a [`Usage`].
    #[serde(borrow)]
    pub(crate) usage: Option<&'a RawValue>,
    /// Of `error`, in any shape.
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MessageHead {
    #[serde(default)]
    pub(crate) usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum StartBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MessageEnd {
    #[serde(default)]
    pub(crate) stop_reason: Option<String>,
}

/// Token counts so far. A missing count keeps the value of an earlier frame.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Usage {
    #[serde(default)]
    pub(crate) input_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) output_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct OutputDetails {
    #[serde(default)]
    pub(crate) thinking_tokens: Option<u64>,
}
