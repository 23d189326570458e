//! JSON of the chunks, as far as they are read. Every member is optional.

use runloom_protocol::outcome::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One chunk.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<Usage>,
    /// The usage, at Groq.
    pub(super) x_groq: Option<Groq>,
    /// An error inside the stream, in any format.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `"error"` marks a failure in vLLM.
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Groq {
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    /// A string, or Mistral's list of parts.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) refusal: Option<String>,
    /// Thinking, at DeepSeek, xAI and vLLM.
    pub(super) reasoning_content: Option<String>,
    /// Thinking, at OpenRouter, Ollama and newer vLLM.
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    pub(super) name: Option<String>,
    /// A piece of the JSON as string, or the whole as object.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of a list-shaped content.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    Text {
        #[serde(default)]
        text: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Cached tokens, at DeepSeek.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Usage {
    /// The token counts. Some servers (xAI) do not include reasoning in the completion, which the total shows.
    pub(super) fn tokens(&self) -> Tokens {
        let input = self.prompt_tokens.unwrap_or(0);
        let completion = self.completion_tokens.unwrap_or(0);
        let reasoning = self
            .completion_tokens_details
            .as_ref()
            .and_then(|details| details.reasoning_tokens)
            .unwrap_or(0);
        let beside = self.total_tokens
            == input
                .checked_add(completion)
                .and_then(|sum| sum.checked_add(reasoning));
        let output = if beside || reasoning > completion {
            completion.saturating_add(reasoning)
        } else {
            completion
        };
        let cached = self
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens)
            .or(self.prompt_cache_hit_tokens)
            .unwrap_or(0);
        Tokens {
            input_tokens: input,
            cached_tokens: cached.min(input),
            reasoning_tokens: reasoning,
            output_tokens: output,
        }
    }
}
