//! From the vendors' chunks to events.

use runloom_ports::model::{Done, ModelError, ModelEvent};
use runloom_protocol::outcome::{ErrorClass, StructuredOutput, Tokens, finish_reason};
use serde_json::value::RawValue;

use super::calls::Calls;
use super::wire::{Choice, Chunk, Delta, Part};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};

/// Reads one answer.
pub(crate) struct Decoder {
    /// The request asked for reasoning, so thinking may be shown.
    shows_thinking: bool,
    /// How much was said before this turn: makes ids unique that the server leaves out.
    turn: usize,
    structured: StructuredOutput,
    calls: Calls,
    /// The vendor's word, once it came.
    finish: Option<String>,
    usage: Option<Tokens>,
    refused: bool,
    /// At least one choice came.
    began: bool,
}

impl Decoder {
    pub(crate) fn new(shows_thinking: bool, turn: usize, structured: StructuredOutput) -> Self {
        Self {
            shows_thinking,
            turn,
            structured,
            calls: Calls::default(),
            finish: None,
            usage: None,
            refused: false,
            began: false,
        }
    }

    fn choice(&mut self, choice: Choice<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if choice.index.unwrap_or(0) != 0 {
            return Ok(());
        }
        self.began = true;
        if let Some(delta) = choice.delta {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason);
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.shows_thinking {
            // A server that sends both fields sends the same text in both.
            let thought = match (delta.reasoning_content, delta.reasoning) {
                (Some(text), _) => text,
                (None, Some(raw)) => serde_json::from_str(raw.get()).unwrap_or_default(),
                (None, None) => String::new(),
            };
            if !thought.is_empty() {
                out.push(ModelEvent::Thinking(thought));
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
            self.calls.piece(piece);
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

    /// The final frame, or the end of the connection after a finish reason, which some servers leave it at.
    fn done(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let word = self.finish.take().unwrap_or_default();
        if word == "error" {
            return Err(ModelError::new(
                ErrorClass::Server,
                "the provider broke off its answer with an error",
            ));
        }
        let truncated = word == "length" || word == "max_tokens";
        let had_calls = !self.calls.is_empty();
        let (calls, malformed): (Vec<_>, Vec<_>) = self
            .calls
            .finish(self.turn)
            .into_iter()
            .partition(Result::is_ok);
        // Where the output budget ran out inside the arguments there is no call to make. Otherwise half of the calls
        // would be another turn than the model's; the driver tells it to make them again.
        let malformed = !malformed.is_empty() && !truncated;
        if !malformed {
            out.extend(calls.into_iter().flatten().map(ModelEvent::Call));
        }
        let finish_reason = match word.as_str() {
            "length" | "max_tokens" => finish_reason::MAX_TOKENS.to_owned(),
            "content_filter" => finish_reason::CONTENT_FILTER.to_owned(),
            _ if malformed => finish_reason::MALFORMED_FUNCTION_CALL.to_owned(),
            // Some servers say `stop` after tool calls as well.
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
            structured: self.structured,
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
            return if self.began {
                self.done(out)
            } else {
                Err(error::cut())
            };
        }
        if data.is_empty() {
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|bad| error::garbage(&bad))?;
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
        Err(error::cut())
    }
}

fn text_of(content: &RawValue) -> Result<String, ModelError> {
    let raw = content.get();
    if raw.starts_with('[') {
        let parts: Vec<Part> = serde_json::from_str(raw).map_err(|bad| error::garbage(&bad))?;
        let texts = parts.into_iter().map(|part| match part {
            Part::Text { text } => text,
            Part::Other => String::new(),
        });
        return Ok(texts.collect());
    }
    let text: Option<String> = serde_json::from_str(raw).map_err(|bad| error::garbage(&bad))?;
    Ok(text.unwrap_or_default())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
