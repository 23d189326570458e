//! The stream of `streamGenerateContent`, as a pure decoder.

use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ProviderState};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};
use serde_json::{Map, Value};

use super::OWNER;
use super::request::Expect;
use super::wire::{Candidate, Chunk, Usage};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};
use crate::structured::{self, TextGate};

/// Decodes one call.
#[derive(Debug)]
pub(crate) struct Decoder {
    expect: Expect,
    /// The parts of the turn, to be sent back as they came.
    parts: Vec<Value>,
    /// Something among the parts means nothing to anybody but their owner.
    private: bool,
    usage: Usage,
    text: TextGate,
    calls: usize,
    hidden_arguments: Option<Value>,
    finish: Option<Finish>,
}

#[derive(Debug)]
struct Finish {
    reason: String,
    message: Option<String>,
}

impl Decoder {
    /// A decoder for the answer to one request.
    pub(crate) fn new(expect: Expect) -> Self {
        let text = TextGate::new(expect.hidden.as_ref());
        Self {
            expect,
            parts: Vec::new(),
            private: false,
            usage: Usage::default(),
            text,
            calls: 0,
            hidden_arguments: None,
            finish: None,
        }
    }

    fn chunk(&mut self, chunk: Chunk, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(usage) = chunk.usage_metadata.filter(|usage| *usage != self.usage) {
            self.usage = usage;
            out.push(ModelEvent::Usage(tokens(&usage)));
        }
        if let Some(failure) = chunk.error {
            return Err(error::from_stream(ErrorBody::from_value(&failure)));
        }
        if let Some(reason) = chunk
            .prompt_feedback
            .and_then(|feedback| feedback.block_reason)
        {
            self.finish = Some(Finish {
                reason: format!("PROMPT_{reason}"),
                message: None,
            });
        }
        // Only one candidate was asked for.
        match chunk.candidates.into_iter().flatten().next() {
            Some(candidate) => self.candidate(candidate, out),
            None => Ok(()),
        }
    }

    fn candidate(
        &mut self,
        candidate: Candidate,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flatten() {
            if let Value::Object(part) = part {
                self.part(part, out)?;
            }
        }
        if let Some(reason) = candidate.finish_reason {
            self.finish = Some(Finish {
                reason,
                message: candidate.finish_message,
            });
        }
        Ok(())
    }

    fn part(
        &mut self,
        part: Map<String, Value>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let signed = part.contains_key("thoughtSignature");
        if let Some(Value::Object(call)) = part.get("functionCall") {
            let hidden = self.call(call, out)?;
            if !hidden {
                self.private |= signed || call.contains_key("id");
                self.parts.push(Value::Object(part));
            }
            return Ok(());
        }
        self.private |= signed;
        let thought = part
            .get("thought")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        if let Some(Value::String(text)) = part.get("text") {
            if thought {
                if self.expect.show_thinking && !text.is_empty() {
                    out.push(ModelEvent::Thinking(text.clone()));
                }
            } else {
                self.text.push(text, out);
                if !signed && (text.is_empty() || self.join(text)) {
                    return Ok(());
                }
            }
        }
        if signed || !thought {
            self.parts.push(Value::Object(part));
        }
        Ok(())
    }

    /// Plain text goes on in the part before it when that is plain text too; a signed part stays alone.
    fn join(&mut self, more: &str) -> bool {
        match self.parts.last_mut() {
            Some(Value::Object(last)) if last.len() == 1 => match last.get_mut("text") {
                Some(Value::String(text)) => {
                    text.push_str(more);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Reads a call. True when it was the hidden function.
    fn call(
        &mut self,
        call: &Map<String, Value>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, ModelError> {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        let input = match call.get("args") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(args @ Value::Object(_)) => args.clone(),
            Some(_) => return Err(error::malformed_call(name)),
        };
        if self
            .expect
            .hidden
            .as_ref()
            .is_some_and(|hidden| hidden.name == name)
        {
            self.hidden_arguments = Some(input);
            return Ok(true);
        }
        self.text.open(out);
        let id = match call.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{}_{}", self.expect.turn, self.calls),
        };
        self.calls += 1;
        out.push(ModelEvent::Call(CallRequest {
            id,
            name: name.to_owned(),
            input,
        }));
        Ok(false)
    }

    fn finish(&mut self, finish: &Finish, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reason = canonical(&finish.reason, self.calls);
        if reason == finish_reason::MALFORMED_FUNCTION_CALL {
            let said = finish
                .message
                .as_deref()
                .unwrap_or("the model sent a function call that cannot be read");
            let mut failure = ModelError::new(ErrorClass::Server, said);
            failure.api_code = Some(finish.reason.clone());
            failure.finish_reason = Some(reason);
            return Err(failure);
        }
        let mut done = Done {
            finish_reason: reason,
            state: None,
            structured: self.expect.structured,
        };
        match (&self.expect.hidden, &self.hidden_arguments) {
            // Beside visible calls the answer came too early, and they go first.
            (Some(hidden), Some(arguments)) if self.calls == 0 => {
                self.text.discard();
                out.push(ModelEvent::Text(hidden.answer(arguments)));
                done.structured = structured::BY_HIDDEN_TOOL;
            }
            _ => {
                self.text.open(out);
                // Half a turn is not replayed.
                if matches!(
                    done.finish_reason.as_str(),
                    finish_reason::END_TURN | finish_reason::TOOL_USE
                ) {
                    done.state = self.state();
                }
            }
        }
        out.push(ModelEvent::Done(done));
        Ok(())
    }

    fn state(&self) -> Option<ProviderState> {
        if !self.private {
            return None;
        }
        let items = serde_json::value::to_raw_value(&self.parts).ok()?;
        Some(ProviderState {
            owner: OWNER.to_owned(),
            model: self.expect.model.clone(),
            items: items.into(),
        })
    }
}

impl StreamDecoder for Decoder {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let result = serde_json::from_slice(data)
            .map_err(|failure| error::garbage(&failure))
            .and_then(|chunk| self.chunk(chunk, out));
        if result.is_err() {
            self.text.open(out);
        }
        result
    }

    /// The last frame has the reason, but counts may follow it: only the end of the stream ends the call.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let result = match self.finish.take() {
            Some(finish) => self.finish(&finish, out),
            None => Err(error::cut()),
        };
        if result.is_err() {
            self.text.open(out);
        }
        result
    }
}

/// The canonical word for a finish reason, or for the block of a prompt (`PROMPT_…`).
fn canonical(reason: &str, calls: usize) -> String {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" if calls > 0 => finish_reason::TOOL_USE,
        "STOP" | "FINISH_REASON_UNSPECIFIED" => finish_reason::END_TURN,
        // The answer could be continued, which costs another call: to everybody else it is an answer cut off.
        "MAX_TOKENS" | "CONTINUATION" => finish_reason::MAX_TOKENS,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => finish_reason::CONTENT_FILTER,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            finish_reason::MALFORMED_FUNCTION_CALL
        }
        "PROMPT_OTHER" | "PROMPT_BLOCKED_REASON_UNSPECIFIED" => finish_reason::REFUSAL,
        prompt if prompt.starts_with("PROMPT_") => finish_reason::CONTENT_FILTER,
        other => return other.to_lowercase(),
    }
    .to_owned()
}

/// Input is the prompt and what tools added to it, output the answer and the thoughts. The total tells when a server
/// counts otherwise: cached input beside the prompt, or thoughts inside the answer.
fn tokens(usage: &Usage) -> Tokens {
    let [prompt, cached, answer, thoughts, tool] = [
        usage.prompt_token_count,
        usage.cached_content_token_count,
        usage.candidates_token_count,
        usage.thoughts_token_count,
        usage.tool_use_prompt_token_count,
    ]
    .map(|count| count.unwrap_or(0));
    let sum = |counts: &[u64]| {
        counts
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count))
    };
    let total = usage.total_token_count.unwrap_or(0);
    let cached_beside = cached > 0 && total == sum(&[prompt, cached, answer, thoughts, tool]);
    let thoughts_inside =
        thoughts > 0 && thoughts <= answer && total == sum(&[prompt, answer, tool]);
    let input = sum(&[prompt, tool, if cached_beside { cached } else { 0 }]);
    let output = sum(&[answer, if thoughts_inside { 0 } else { thoughts }]);
    Tokens {
        input_tokens: input,
        cached_tokens: cached.min(input),
        reasoning_tokens: thoughts.min(output),
        output_tokens: output,
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
