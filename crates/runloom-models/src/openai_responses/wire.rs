//! JSON of the frames, as far as they are read. Unknown types and members are ignored.

use std::borrow::Cow;

use runloom_protocol::outcome::Tokens;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Any event. The parts stay raw until the type says what they are.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    pub(super) output_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
}

/// An output item of a turn.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    FunctionCall {
        #[serde(default)]
        call_id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        arguments: String,
        #[serde(default)]
        status: Option<String>,
    },
    Message {
        #[serde(default)]
        content: Vec<Content>,
    },
    /// Reasoning and unknown items: replayed, not read.
    #[serde(other)]
    Other,
}

/// A part of a message.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content {
    OutputText {
        #[serde(default)]
        text: String,
    },
    Refusal {
        #[serde(default)]
        refusal: String,
    },
    #[serde(other)]
    Other,
}

/// The response at its end.
#[derive(Debug, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
    pub(super) incomplete_details: Option<IncompleteDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IncompleteDetails {
    pub(super) reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl Usage {
    /// The token counts: input includes cached, output includes reasoning.
    pub(super) fn tokens(&self) -> Tokens {
        let cached = self.input_tokens_details.as_ref();
        let reasoning = self.output_tokens_details.as_ref();
        Tokens {
            input_tokens: self.input_tokens,
            cached_tokens: cached
                .and_then(|details| details.cached_tokens)
                .unwrap_or(0)
                .min(self.input_tokens),
            reasoning_tokens: reasoning
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or(0)
                .min(self.output_tokens),
            output_tokens: self.output_tokens,
        }
    }
}
