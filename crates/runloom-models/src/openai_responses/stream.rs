//! Decoder of the Responses API.

use std::sync::Arc;

use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ProviderState};
use runloom_protocol::outcome::{StructuredOutput, finish_reason};
use serde_json::value::RawValue;

use super::OWNER;
use super::wire::{Content, Event, Item, Response};
use crate::decode::StreamDecoder;
use crate::error::{self, ErrorBody};
use crate::tools;

/// The request, as far as the decoder depends on it.
#[derive(Debug)]
pub(super) struct RequestInfo {
    /// The vendor's name of the model, which owns its items.
    pub(super) model: String,
    /// Whether the run asked for thinking to be shown.
    pub(super) show_thinking: bool,
    /// Outcome of the output schema.
    pub(super) structured: StructuredOutput,
}

/// Decodes one response.
pub(super) struct Decoder {
    info: RequestInfo,
    /// The output items that are complete, verbatim.
    items: Vec<Box<RawValue>>,
    /// Output index of the last item whose text came in deltas: the complete text at its end is ignored.
    streamed_index: Option<u64>,
    /// The calls so far. They are emitted at the end, all or none.
    calls: Vec<CallRequest>,
    /// Whether the model refused.
    refused: bool,
    /// Whether the arguments of a call are malformed.
    malformed: bool,
}

impl Decoder {
    /// A decoder for the response to this request.
    pub(super) fn new(info: RequestInfo) -> Self {
        Self {
            info,
            items: Vec::new(),
            streamed_index: None,
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
        let item: Item =
            serde_json::from_str(raw.get()).map_err(|bad| error::unreadable_frame(&bad))?;
        match item {
            Item::FunctionCall { status, .. } if status.as_deref() == Some("incomplete") => {
                // The output limit cut the arguments: there is no call to make.
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

    /// A complete message. Its text is emitted only if no deltas of it came.
    fn message(&mut self, content: Vec<Content>, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        let is_new = self.streamed_index != Some(index.unwrap_or(0));
        for part in content {
            let text = match part {
                Content::OutputText { text } => text,
                Content::Refusal { refusal } => {
                    self.refused = true;
                    refusal
                }
                Content::Other => continue,
            };
            if is_new && !text.is_empty() {
                out.push(ModelEvent::Text(text));
            }
        }
    }

    fn text_delta(&mut self, text: String, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.streamed_index = Some(index.unwrap_or(0));
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
            serde_json::from_str(raw).map_err(|bad| error::unreadable_frame(&bad))?;
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
        // A turn with some of its calls would differ from the model's, so none is made and the driver asks the model to
        // repeat them.
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
            // An incomplete turn is not replayed: the API rejects reasoning without the item after it.
            state: if complete { self.state() } else { None },
            structured: self.info.structured,
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
            model: self.info.model.clone(),
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
        if data == b"[DONE]" || name.is_some_and(|name| is_redundant(name) && has_type(data, name))
        {
            return Ok(());
        }
        let event: Event<'_> =
            serde_json::from_slice(data).map_err(|bad| error::unreadable_frame(&bad))?;
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
                if self.info.show_thinking =>
            {
                out.push(ModelEvent::Thinking(delta(&event)?));
                Ok(())
            }
            "response.reasoning_summary_part.added"
                if self.info.show_thinking && event.summary_index.unwrap_or(0) > 0 =>
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
        Err(error::incomplete_response())
    }
}

/// Events that announce or repeat others. They are skipped without parsing: some hold the whole response, others are as
/// frequent as deltas.
fn is_redundant(name: &str) -> bool {
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

/// Whether the frame begins with this type, as the vendor's frames do.
fn has_type(data: &[u8], name: &str) -> bool {
    let rest = data.strip_prefix(br#"{"type":""#);
    let rest = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}

fn delta(event: &Event<'_>) -> Result<String, ModelError> {
    match event.delta {
        None => Ok(String::new()),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|bad| error::unreadable_frame(&bad)),
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
