//! Decoder of chat completions.

use runloom_ports::model::{Done, ModelError, ModelEvent};
use runloom_protocol::outcome::{ErrorClass, StructuredOutput, Tokens, finish_reason};
use serde_json::value::RawValue;

use super::calls::Calls;
use super::wire::{Choice, Chunk, Delta, Part};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};

/// The request, as far as the decoder depends on it.
#[derive(Debug)]
pub(super) struct RequestInfo {
    /// Whether the run asked for thinking to be shown.
    pub(super) show_thinking: bool,
    /// Number of messages before this turn: part of the ids of calls that come without one.
    pub(super) turn: usize,
    /// Outcome of the output schema.
    pub(super) structured: StructuredOutput,
}

/// Decodes one response.
pub(super) struct Decoder {
    info: RequestInfo,
    calls: Calls,
    /// The finish reason of the API, once it came.
    finish: Option<String>,
    usage: Option<Tokens>,
    refused: bool,
    /// Whether a choice came.
    has_choice: bool,
}

impl Decoder {
    /// A decoder for the response to this request.
    pub(super) fn new(info: RequestInfo) -> Self {
        Self {
            info,
            calls: Calls::default(),
            finish: None,
            usage: None,
            refused: false,
            has_choice: false,
        }
    }

    fn choice(&mut self, choice: Choice<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if choice.index.unwrap_or(0) != 0 {
            return Ok(());
        }
        self.has_choice = true;
        if let Some(delta) = choice.delta {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason);
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.info.show_thinking {
            // Servers that send both fields send the same text in both.
            let thinking = match (delta.reasoning_content, delta.reasoning) {
                (Some(text), _) => text,
                (None, Some(raw)) => serde_json::from_str(raw.get()).unwrap_or_default(),
                (None, None) => String::new(),
            };
            if !thinking.is_empty() {
                out.push(ModelEvent::Thinking(thinking));
            }
        }
        if let Some(content) = delta.content {
            let text = text_of(content)?;
            if !text.is_empty() {
                out.push(ModelEvent::Text(text));
            }
        }
        if let Some(refusal) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            out.push(ModelEvent::Text(refusal));
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.calls.push(piece);
        }
        Ok(())
    }

    fn count(&mut self, tokens: Tokens, out: &mut Vec<ModelEvent>) {
        // Some servers repeat the usage in every chunk.
        if self.usage != Some(tokens) {
            self.usage = Some(tokens);
            out.push(ModelEvent::Usage(tokens));
        }
    }

    /// The final frame, or the end of the body after a finish reason, because some servers send no final frame.
    fn done(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reason = self.finish.take().unwrap_or_default();
        if reason == "error" {
            return Err(ModelError::new(
                ErrorClass::Server,
                "the provider ended its response with an error",
            ));
        }
        let truncated = reason == "length" || reason == "max_tokens";
        let had_calls = !self.calls.is_empty();
        let (calls, malformed): (Vec<_>, Vec<_>) = self
            .calls
            .finish(self.info.turn)
            .into_iter()
            .partition(Result::is_ok);
        // If the output limit cut the arguments, there is no call to make. Otherwise a turn with some of its calls
        // would differ from the model's, so none is made and the driver asks the model to repeat them.
        let malformed = !malformed.is_empty() && !truncated;
        if !malformed {
            out.extend(calls.into_iter().flatten().map(ModelEvent::Call));
        }
        let finish_reason = match reason.as_str() {
            "length" | "max_tokens" => finish_reason::MAX_TOKENS.to_owned(),
            "content_filter" => finish_reason::CONTENT_FILTER.to_owned(),
            _ if malformed => finish_reason::MALFORMED_FUNCTION_CALL.to_owned(),
            // Some servers send `stop` after tool calls as well.
            _ if had_calls => finish_reason::TOOL_USE.to_owned(),
            _ if self.refused => finish_reason::REFUSAL.to_owned(),
            "" | "stop" | "eos" | "end_turn" | "tool_calls" | "function_call" => {
                finish_reason::END_TURN.to_owned()
            }
            other => other.to_ascii_lowercase(),
        };
        out.push(ModelEvent::Done(Done {
            finish_reason,
            state: None,
            structured: self.info.structured,
        }));
        Ok(())
    }
}

impl StreamDecoder for Decoder {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            return if self.has_choice {
                self.done(out)
            } else {
                Err(error::incomplete_response())
            };
        }
        if data.is_empty() {
            return Ok(());
        }
        let chunk: Chunk<'_> =
            serde_json::from_slice(data).map_err(|bad| error::unreadable_frame(&bad))?;
        let usage = chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage));
        if let Some(usage) = usage {
            self.count(usage.tokens(), out);
        }
        let has_error = chunk.error.is_some_and(|error| error.get() != "null");
        let is_error = chunk
            .object
            .is_some_and(|object| object.get() == r#""error""#);
        if has_error || is_error {
            return Err(error::from_stream(ErrorBody::parse(data)));
        }
        for choice in chunk.choices.into_iter().flatten() {
            self.choice(choice, out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.finish.is_some() {
            return self.done(out);
        }
        Err(error::incomplete_response())
    }
}

fn text_of(content: &RawValue) -> Result<String, ModelError> {
    let raw = content.get();
    if raw.starts_with('[') {
        let parts: Vec<Part> =
            serde_json::from_str(raw).map_err(|bad| error::unreadable_frame(&bad))?;
        let texts = parts.into_iter().map(|part| match part {
            Part::Text { text } => text,
            Part::Other => String::new(),
        });
        return Ok(texts.collect());
    }
    let text: Option<String> =
        serde_json::from_str(raw).map_err(|bad| error::unreadable_frame(&bad))?;
    Ok(text.unwrap_or_default())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
