//! From the vendor's events to ours.

use std::sync::Arc;

use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ProviderState};
use runloom_protocol::outcome::{StructuredOutput, finish_reason};
use serde_json::value::RawValue;

use super::OWNER;
use super::wire::{Content, Event, Item, Response};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};
use crate::tools;

/// Reads one answer.
pub(crate) struct Decoder {
    model: String,
    /// The request asked for reasoning, so thinking may be shown.
    shows_thinking: bool,
    structured: StructuredOutput,
    /// The output items that are complete, verbatim.
    items: Vec<Box<RawValue>>,
    /// The output index of the last item of which text was sent: its whole text at the end is not news.
    spoken_index: Option<u64>,
    /// The calls so far; they are handed on at the end, all or none.
    calls: Vec<CallRequest>,
    refused: bool,
    /// A call's arguments cannot be read.
    malformed: bool,
}

impl Decoder {
    pub(crate) fn new(model: &str, shows_thinking: bool, structured: StructuredOutput) -> Self {
        Self {
            model: model.to_owned(),
            shows_thinking,
            structured,
            items: Vec::new(),
            spoken_index: None,
            calls: Vec::new(),
            refused: false,
            malformed: false,
        }
    }

    fn item(
        &mut self,
        raw: &RawValue,
        index: Option<u64>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item: Item = serde_json::from_str(raw.get()).map_err(|bad| error::garbage(&bad))?;
        match item {
            Item::FunctionCall { status, .. } if status.as_deref() == Some("incomplete") => {
                // The output budget ran out inside the arguments: there is no call to make.
                return Ok(());
            }
            Item::FunctionCall {
                call_id,
                name,
                arguments,
                ..
            } => match tools::arguments(&name, &arguments) {
                Ok(input) => self.calls.push(CallRequest {
                    id: call_id,
                    name,
                    input,
                }),
                Err(_) => self.malformed = true,
            },
            Item::Message { content } => self.message(content, index, out),
            Item::Other => {}
        }
        self.items.push(raw.to_owned());
        Ok(())
    }

    /// A complete message: news only when no deltas of it came.
    fn message(&mut self, content: Vec<Content>, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        let is_news = self.spoken_index != Some(index.unwrap_or(0));
        for part in content {
            let text = match part {
                Content::OutputText { text } => text,
                Content::Refusal { refusal } => {
                    self.refused = true;
                    refusal
                }
                Content::Other => continue,
            };
            if is_news && !text.is_empty() {
                out.push(ModelEvent::Text(text));
            }
        }
    }

    fn text_delta(&mut self, text: String, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.spoken_index = Some(index.unwrap_or(0));
            out.push(ModelEvent::Text(text));
        }
    }

    fn finish(
        &mut self,
        kind: &str,
        response: Option<&RawValue>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let raw = response.map_or("{}", RawValue::get);
        let response: Response<'_> =
            serde_json::from_str(raw).map_err(|bad| error::garbage(&bad))?;
        if self.items.is_empty() && kind == "response.completed" {
            // Some servers send the items only here.
            for (index, item) in response.output.iter().flatten().enumerate() {
                self.item(item, Some(index as u64), out)?;
            }
        }
        if let Some(usage) = &response.usage {
            out.push(ModelEvent::Usage(usage.tokens()));
        }
        if kind == "response.failed" {
            let body = response.error.as_ref().map(ErrorBody::from_value);
            return Err(error::from_stream(body.unwrap_or_default()));
        }
        // Half of the calls would be another turn than the model's; the driver tells it to make them again.
        let complete = kind == "response.completed" && !self.malformed;
        let finish_reason = if self.malformed {
            finish_reason::MALFORMED_FUNCTION_CALL.to_owned()
        } else if complete {
            self.reason()
        } else {
            incomplete_reason(
                response
                    .incomplete_details
                    .and_then(|details| details.reason),
            )
        };
        if !self.malformed {
            out.extend(self.calls.drain(..).map(ModelEvent::Call));
        }
        out.push(ModelEvent::Done(Done {
            finish_reason,
            // Half a turn cannot be replayed: reasoning without what follows it is refused.
            state: if complete { self.state() } else { None },
            structured: self.structured,
        }));
        Ok(())
    }

    fn reason(&self) -> String {
        let reason = if !self.calls.is_empty() {
            finish_reason::TOOL_USE
        } else if self.refused {
            finish_reason::REFUSAL
        } else {
            finish_reason::END_TURN
        };
        reason.to_owned()
    }

    fn state(&self) -> Option<ProviderState> {
        if self.items.is_empty() {
            return None;
        }
        let items = serde_json::value::to_raw_value(&self.items).ok()?;
        Some(ProviderState {
            owner: OWNER.to_owned(),
            model: self.model.clone(),
            items: Arc::from(items),
        })
    }
}

impl StreamDecoder for Decoder {
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if data == b"[DONE]" || name.is_some_and(|name| says_nothing_new(name) && is_of(data, name))
        {
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_slice(data).map_err(|bad| error::garbage(&bad))?;
        let kind = match event.kind.as_ref() {
            "" => name.unwrap_or_default(),
            kind => kind,
        };
        match kind {
            "response.output_text.delta" => {
                self.text_delta(delta(&event)?, event.output_index, out);
                Ok(())
            }
            "response.refusal.delta" => {
                self.refused = true;
                self.text_delta(delta(&event)?, event.output_index, out);
                Ok(())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta"
                if self.shows_thinking =>
            {
                out.push(ModelEvent::Thinking(delta(&event)?));
                Ok(())
            }
            "response.reasoning_summary_part.added"
                if self.shows_thinking && event.summary_index.unwrap_or(0) > 0 =>
            {
                out.push(ModelEvent::Thinking("\n\n".to_owned()));
                Ok(())
            }
            "response.output_item.done" => match event.item {
                Some(item) => self.item(item, event.output_index, out),
                None => Ok(()),
            },
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.finish(kind, event.response, out)
            }
            "error" => Err(error::from_stream(ErrorBody::parse(data))),
            _ => Ok(()),
        }
    }

    fn end(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        Err(error::cut())
    }
}

/// Events that announce or repeat what others tell. They are passed over unread: some hold the whole response, of others there are as many
/// as of pieces of text.
fn says_nothing_new(name: &str) -> bool {
    matches!(
        name,
        "response.created"
            | "response.queued"
            | "response.in_progress"
            | "response.output_item.added"
            | "response.content_part.added"
            | "response.content_part.done"
            | "response.output_text.done"
            | "response.refusal.done"
            | "response.function_call_arguments.delta"
            | "response.function_call_arguments.done"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_text.done"
    )
}

/// Whether the frame says of itself first, as the vendor's do, what its name says.
fn is_of(data: &[u8], name: &str) -> bool {
    let rest = data.strip_prefix(br#"{"type":""#);
    let rest = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}

fn delta(event: &Event<'_>) -> Result<String, ModelError> {
    match event.delta {
        None => Ok(String::new()),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|bad| error::garbage(&bad)),
    }
}

fn incomplete_reason(reason: Option<String>) -> String {
    match reason.as_deref() {
        None | Some("max_output_tokens" | "max_tokens") => finish_reason::MAX_TOKENS.to_owned(),
        Some("content_filter") => finish_reason::CONTENT_FILTER.to_owned(),
        Some(other) => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
