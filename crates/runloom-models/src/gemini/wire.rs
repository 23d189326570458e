//! JSON of `generateContent`: requests in full, responses only as far as they are read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The members before `contents`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_config: Option<ToolConfig<'a>>,
}

/// The members after `contents`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tail<'a> {
    pub(crate) generation_config: GenerationConfig<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Instruction<'a> {
    pub(crate) parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tools<'a> {
    pub(crate) function_declarations: Vec<Declaration<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Declaration<'a> {
    pub(crate) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) description: &'a str,
    pub(crate) parameters_json_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_json_schema: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolConfig<'a> {
    pub(crate) function_calling_config: CallingConfig<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "UPPERCASE")]
pub(crate) enum CallingConfig<'a> {
    Any {
        #[serde(rename = "allowedFunctionNames")]
        allowed: [&'a str; 1],
    },
    None,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_json_schema: Option<&'a Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThinkingConfig {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_budget: Option<u64>,
}

/// A part of a content.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Call {
        #[serde(rename = "functionCall")]
        function_call: Call<'a>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    Data {
        #[serde(rename = "inlineData")]
        inline_data: Data<'a>,
    },
    Response {
        #[serde(rename = "functionResponse")]
        function_response: Response<'a>,
    },
}

#[derive(Debug, Serialize)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) args: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Data<'a> {
    pub(crate) mime_type: &'a str,
    pub(crate) data: &'a str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) response: Value,
}

/// A stored part, as far as it is checked before it is replayed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredPart<'a> {
    #[serde(default, borrow)]
    pub(crate) function_call: Option<StoredCall<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StoredCall<'a> {
    #[serde(default, borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) name: Cow<'a, str>,
}

/// One event of the stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk {
    #[serde(default)]
    pub(crate) candidates: Option<Vec<Candidate>>,
    #[serde(default)]
    pub(crate) prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    pub(crate) usage_metadata: Option<Usage>,
    #[serde(default)]
    pub(crate) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Candidate {
    #[serde(default)]
    pub(crate) content: Option<ReadContent>,
    #[serde(default)]
    pub(crate) finish_reason: Option<String>,
    #[serde(default)]
    pub(crate) finish_message: Option<String>,
}

/// Parts are kept verbatim, because unknown members must be replayed too.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadContent {
    #[serde(default)]
    pub(crate) parts: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptFeedback {
    #[serde(default)]
    pub(crate) block_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Usage {
    pub(crate) prompt_token_count: Option<u64>,
    pub(crate) cached_content_token_count: Option<u64>,
    pub(crate) candidates_token_count: Option<u64>,
    pub(crate) thoughts_token_count: Option<u64>,
    pub(crate) tool_use_prompt_token_count: Option<u64>,
    pub(crate) total_token_count: Option<u64>,
}
