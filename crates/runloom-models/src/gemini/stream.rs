//! Decoder of `streamGenerateContent`.

use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ProviderState};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};
use serde_json::{Map, Value};

use super::OWNER;
use super::request::RequestInfo;
use super::wire::{Candidate, Chunk, Usage};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};
use crate::structured::{self, TextGate};

/// Decodes one response.
#[derive(Debug)]
pub(crate) struct Decoder {
    info: RequestInfo,
    /// The parts of the turn, to be replayed verbatim.
    parts: Vec<Value>,
    /// Whether a part is opaque, so that the turn must be replayed.
    is_opaque: bool,
    usage: Usage,
    text: TextGate,
    calls: usize,
    hidden_arguments: Option<Value>,
    finish: Option<Finish>,
}

/// Whether a call is one of the request's tools or the hidden function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Visible,
    Hidden,
}

#[derive(Debug)]
struct Finish {
    reason: String,
    message: Option<String>,
}

impl Decoder {
    /// A decoder for the response to this request.
    pub(crate) fn new(info: RequestInfo) -> Self {
        let text = TextGate::new(info.hidden.as_ref());
        Self {
            info,
            parts: Vec::new(),
            is_opaque: false,
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
        // Only one candidate is requested.
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
            if self.call(call, out)? == CallKind::Visible {
                self.is_opaque |= signed || call.contains_key("id");
                self.parts.push(Value::Object(part));
            }
            return Ok(());
        }
        self.is_opaque |= signed;
        let thought = part
            .get("thought")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        if let Some(Value::String(text)) = part.get("text") {
            if thought {
                if self.info.show_thinking && !text.is_empty() {
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

    /// Appends plain text to the part before, if that is plain text too. A signed part is not extended.
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

    /// Emits a visible call, or keeps the arguments of the hidden function.
    fn call(
        &mut self,
        call: &Map<String, Value>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<CallKind, ModelError> {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        let input = match call.get("args") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(args @ Value::Object(_)) => args.clone(),
            Some(_) => return Err(error::malformed_call(name)),
        };
        if self
            .info
            .hidden
            .as_ref()
            .is_some_and(|hidden| hidden.name == name)
        {
            self.hidden_arguments = Some(input);
            return Ok(CallKind::Hidden);
        }
        self.text.open(out);
        let id = match call.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{}_{}", self.info.turn, self.calls),
        };
        self.calls += 1;
        out.push(ModelEvent::Call(CallRequest {
            id,
            name: name.to_owned(),
            input,
        }));
        Ok(CallKind::Visible)
    }

    fn finish(&mut self, finish: &Finish, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reason = canonical(&finish.reason, self.calls);
        if reason == finish_reason::MALFORMED_FUNCTION_CALL {
            let message = finish
                .message
                .as_deref()
                .unwrap_or("the model sent a function call that cannot be parsed");
            let mut failure = ModelError::new(ErrorClass::Server, message);
            failure.api_code = Some(finish.reason.clone());
            failure.finish_reason = Some(reason);
            return Err(failure);
        }
        let mut done = Done {
            finish_reason: reason,
            state: None,
            structured: self.info.structured,
        };
        match (&self.info.hidden, &self.hidden_arguments) {
            // Visible calls are executed first, and the output is ignored.
            (Some(hidden), Some(arguments)) if self.calls == 0 => {
                self.text.discard();
                out.push(ModelEvent::Text(hidden.output(arguments)));
                done.structured = structured::BY_HIDDEN_TOOL;
            }
            _ => {
                self.text.open(out);
                // An incomplete turn is not replayed.
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
        if !self.is_opaque {
            return None;
        }
        let items = serde_json::value::to_raw_value(&self.parts).ok()?;
        Some(ProviderState {
            owner: OWNER.to_owned(),
            model: self.info.model.clone(),
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
            .map_err(|failure| error::unreadable_frame(&failure))
            .and_then(|chunk| self.chunk(chunk, out));
        if result.is_err() {
            self.text.open(out);
        }
        result
    }

    /// The finish reason may be followed by token counts, so only the end of the body ends the response.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let result = match self.finish.take() {
            Some(finish) => self.finish(&finish, out),
            None => Err(error::incomplete_response()),
        };
        if result.is_err() {
            self.text.open(out);
        }
        result
    }
}

/// The finish reason for a finish reason of the API, or for the block reason of a prompt (`PROMPT_…`).
fn canonical(reason: &str, calls: usize) -> String {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" if calls > 0 => finish_reason::TOOL_USE,
        "STOP" | "FINISH_REASON_UNSPECIFIED" => finish_reason::END_TURN,
        // Continuing would need another call; the output is cut off like at any other limit.
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

/// The token counts: input is the prompt and the tools' prompts, output the candidates and the thoughts. If the total
/// does not fit, cached input is counted beside the prompt, or thoughts inside the candidates.
fn tokens(usage: &Usage) -> Tokens {
    let [prompt, cached, candidates, thoughts, tool] = [
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
    let cached_beside = cached > 0 && total == sum(&[prompt, cached, candidates, thoughts, tool]);
    let thoughts_inside =
        thoughts > 0 && thoughts <= candidates && total == sum(&[prompt, candidates, tool]);
    let input = sum(&[prompt, tool, if cached_beside { cached } else { 0 }]);
    let output = sum(&[candidates, if thoughts_inside { 0 } else { thoughts }]);
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
