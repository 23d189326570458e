//! Decoder of the Messages API.

use std::collections::BTreeMap;

use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ProviderState};
use runloom_protocol::outcome::{Tokens, finish_reason};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::OWNER;
use super::request::RequestInfo;
use super::wire::{Delta, Frame, MessageEnd, MessageHead, StartBlock, Usage};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};
use crate::structured::{self, TextGate};

/// Decodes one response.
#[derive(Debug)]
pub(crate) struct Decoder {
    info: RequestInfo,
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    stop_reason: Option<String>,
    text: TextGate,
    calls: usize,
    malformed: Option<String>,
    finished: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking { thinking: String, signature: String },
    Redacted(String),
    Tool(Tool),
    Unknown,
}

#[derive(Debug)]
struct Tool {
    id: String,
    name: String,
    json: String,
    input: Option<Map<String, Value>>,
}

impl Decoder {
    /// A decoder for the response to this request.
    pub(crate) fn new(info: RequestInfo) -> Self {
        let text = TextGate::new(info.hidden.as_ref());
        Self {
            info,
            blocks: BTreeMap::new(),
            usage: Usage::default(),
            stop_reason: None,
            text,
            calls: 0,
            malformed: None,
            finished: false,
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let index = frame.index.unwrap_or(0);
        match frame.kind.as_ref() {
            "message_start" => {
                let message: MessageHead = part(frame.message)?;
                self.count(message.usage, out);
            }
            "content_block_start" => self.start(index, part(frame.content_block)?, out),
            "content_block_delta" => self.delta(index, part(frame.delta)?, out),
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                let delta: MessageEnd = part(frame.delta)?;
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                if frame.usage.is_some() {
                    self.count(part(frame.usage)?, out);
                }
            }
            "message_stop" => return self.finish(out),
            "error" => {
                let error: Value = part(frame.error)?;
                return Err(error::from_stream(ErrorBody::from_value(&error)));
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u64, block: StartBlock, out: &mut Vec<ModelEvent>) {
        let block = match block {
            StartBlock::Text { text } => {
                self.text.push(&text, out);
                Block::Text(text)
            }
            StartBlock::Thinking {
                thinking,
                signature,
            } => {
                self.think(&thinking, out);
                Block::Thinking {
                    thinking,
                    signature,
                }
            }
            StartBlock::RedactedThinking { data } => Block::Redacted(data),
            StartBlock::ToolUse { id, name, input } => {
                if !self.is_hidden(&name) {
                    self.text.open(out);
                }
                let input = match input {
                    Value::Object(input) => Some(input),
                    _ => None,
                };
                let json = String::new();
                Block::Tool(Tool {
                    id,
                    name,
                    json,
                    input,
                })
            }
            StartBlock::Other => Block::Unknown,
        };
        self.blocks.insert(index, block);
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut Vec<ModelEvent>) {
        match (delta, self.blocks.get_mut(&index)) {
            (Delta::Text { text }, Some(Block::Text(whole))) => {
                whole.push_str(&text);
                self.text.push(&text, out);
            }
            (Delta::Thinking { thinking: more }, Some(Block::Thinking { thinking, .. })) => {
                thinking.push_str(&more);
                self.think(&more, out);
            }
            (Delta::Signature { signature: whole }, Some(Block::Thinking { signature, .. })) => {
                *signature = whole;
            }
            (Delta::InputJson { partial_json }, Some(Block::Tool(tool))) => {
                // Only the new piece is checked; the earlier ones were checked when they came.
                if !partial_json.trim().is_empty() {
                    // The input of `content_block_start` is a placeholder; the real one is parsed at the end.
                    tool.input = None;
                }
                tool.json.push_str(&partial_json);
            }
            _ => {}
        }
    }

    /// Ends a block. A visible call is emitted as soon as it is complete.
    fn stop(&mut self, index: u64, out: &mut Vec<ModelEvent>) {
        let Some(Block::Tool(tool)) = self.blocks.get_mut(&index) else {
            return;
        };
        if !tool.json.trim().is_empty() {
            tool.input = serde_json::from_str(&tool.json).ok();
        }
        if self
            .info
            .hidden
            .as_ref()
            .is_some_and(|hidden| hidden.name == tool.name)
        {
            return;
        }
        match &tool.input {
            Some(input) => {
                self.calls += 1;
                out.push(ModelEvent::Call(CallRequest {
                    id: tool.id.clone(),
                    name: tool.name.clone(),
                    input: Value::Object(input.clone()),
                }));
            }
            None => self.malformed = Some(tool.name.clone()),
        }
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reason = canonical(self.stop_reason.as_deref().unwrap_or("end_turn"));
        if let Some(name) = self
            .malformed
            .as_deref()
            .filter(|_| reason != finish_reason::MAX_TOKENS)
        {
            return Err(error::malformed_call(name));
        }
        let output = self.hidden_output();
        let mut done = Done {
            finish_reason: reason,
            state: None,
            structured: self.info.structured,
        };
        match output {
            Some(output) => {
                self.text.discard();
                out.push(ModelEvent::Text(output.text));
                if output.is_complete {
                    done.structured = structured::BY_HIDDEN_TOOL;
                    done.finish_reason = finish_reason::END_TURN.to_owned();
                }
            }
            None => {
                self.text.open(out);
                // An incomplete turn is not replayed.
                if !matches!(
                    done.finish_reason.as_str(),
                    finish_reason::MAX_TOKENS | finish_reason::REFUSAL
                ) {
                    done.state = self.state();
                }
                // Only the hidden tool was called, with arguments that were discarded: there is nothing to execute.
                if self.calls == 0 && done.finish_reason == finish_reason::TOOL_USE {
                    done.finish_reason = finish_reason::END_TURN.to_owned();
                }
            }
        }
        self.finished = true;
        out.push(ModelEvent::Done(done));
        Ok(())
    }

    /// The arguments of the hidden tool. `None` if visible tools were called too: they are executed first.
    fn hidden_output(&self) -> Option<HiddenOutput> {
        let hidden = self.info.hidden.as_ref()?;
        if self.calls > 0 {
            return None;
        }
        let tool = self.blocks.values().find_map(|block| match block {
            Block::Tool(tool) if tool.name == hidden.name => Some(tool),
            _ => None,
        })?;
        Some(match &tool.input {
            Some(input) => HiddenOutput {
                text: hidden.output(&Value::Object(input.clone())),
                is_complete: true,
            },
            None => HiddenOutput {
                text: tool.json.clone(),
                is_complete: false,
            },
        })
    }

    /// The blocks of the turn, if one of them is opaque and must be replayed.
    fn state(&self) -> Option<ProviderState> {
        let opaque = |block: &Block| {
            matches!(block, Block::Thinking { signature, .. } if !signature.is_empty())
                || matches!(block, Block::Redacted(_))
        };
        if !self.blocks.values().any(opaque) || self.malformed.is_some() {
            return None;
        }
        let items: Vec<Value> = self
            .blocks
            .values()
            .filter_map(|block| self.stored(block))
            .collect();
        let items = serde_json::value::to_raw_value(&items).ok()?;
        Some(ProviderState {
            owner: OWNER.to_owned(),
            model: self.info.model.clone(),
            items: items.into(),
        })
    }

    fn stored(&self, block: &Block) -> Option<Value> {
        match block {
            Block::Text(text) if text.trim().is_empty() => None,
            Block::Text(text) => Some(json!({ "type": "text", "text": text })),
            // The API rejects thinking without its signature.
            Block::Thinking { signature, .. } if signature.is_empty() => None,
            Block::Thinking {
                thinking,
                signature,
            } => Some(json!({ "type": "thinking", "thinking": thinking, "signature": signature })),
            Block::Redacted(data) => Some(json!({ "type": "redacted_thinking", "data": data })),
            Block::Tool(tool) if self.is_hidden(&tool.name) => None,
            Block::Tool(tool) => Some(
                json!({ "type": "tool_use", "id": tool.id, "name": tool.name, "input": tool.input }),
            ),
            Block::Unknown => None,
        }
    }

    fn is_hidden(&self, name: &str) -> bool {
        self.info
            .hidden
            .as_ref()
            .is_some_and(|hidden| hidden.name == name)
    }

    fn think(&self, thinking: &str, out: &mut Vec<ModelEvent>) {
        if self.info.show_thinking && !thinking.is_empty() {
            out.push(ModelEvent::Thinking(thinking.to_owned()));
        }
    }

    fn count(&mut self, usage: Option<Usage>, out: &mut Vec<ModelEvent>) {
        let Some(usage) = usage else { return };
        let known = self.usage;
        self.usage = Usage {
            input_tokens: usage.input_tokens.or(known.input_tokens),
            cache_creation_input_tokens: usage
                .cache_creation_input_tokens
                .or(known.cache_creation_input_tokens),
            cache_read_input_tokens: usage
                .cache_read_input_tokens
                .or(known.cache_read_input_tokens),
            output_tokens: usage.output_tokens.or(known.output_tokens),
            output_tokens_details: usage.output_tokens_details.or(known.output_tokens_details),
        };
        out.push(ModelEvent::Usage(tokens(&self.usage)));
    }
}

/// The output that was passed to the hidden tool.
struct HiddenOutput {
    text: String,
    /// Whether the arguments were valid JSON.
    is_complete: bool,
}

impl StreamDecoder for Decoder {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.finished || data.is_empty() {
            return Ok(());
        }
        let result = serde_json::from_slice(data)
            .map_err(|failure| error::unreadable_frame(&failure))
            .and_then(|frame| self.frame(&frame, out));
        if result.is_err() {
            self.text.open(out);
        }
        result
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.finished {
            return Ok(());
        }
        self.text.open(out);
        Err(error::incomplete_response())
    }
}

/// Parses a part of a frame. A part that is missing is an error like one that cannot be read.
fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, ModelError> {
    serde_json::from_str(raw.map_or("", RawValue::get))
        .map_err(|failure| error::unreadable_frame(&failure))
}

/// The token counts. Input includes the tokens that were written to or read from the cache.
fn tokens(usage: &Usage) -> Tokens {
    let cached = usage.cache_read_input_tokens.unwrap_or(0);
    let input = usage.input_tokens.unwrap_or(0).saturating_add(cached);
    let output = usage.output_tokens.unwrap_or(0);
    let thinking = usage
        .output_tokens_details
        .and_then(|details| details.thinking_tokens)
        .unwrap_or(0);
    Tokens {
        input_tokens: input.saturating_add(usage.cache_creation_input_tokens.unwrap_or(0)),
        cached_tokens: cached,
        reasoning_tokens: thinking.min(output),
        output_tokens: output,
    }
}

/// The finish reason for a stop reason of the API.
fn canonical(reason: &str) -> String {
    match reason {
        // The context window ended in the middle of the output, which is cut off like any other limit.
        "max_tokens" | "model_context_window_exceeded" => finish_reason::MAX_TOKENS,
        // Only turns with tools that run at the provider are paused, and none are offered.
        "end_turn" | "pause_turn" => finish_reason::END_TURN,
        "tool_use" => finish_reason::TOOL_USE,
        "stop_sequence" => finish_reason::STOP_SEQUENCE,
        "refusal" => finish_reason::REFUSAL,
        other => return other.to_lowercase(),
    }
    .to_owned()
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
