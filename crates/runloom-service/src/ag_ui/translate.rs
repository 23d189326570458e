//! From the log of a run to the events of AG-UI. Pure: the same log gives the same events, live and replayed.

use std::collections::HashSet;

use runloom_ports::store::Millis;
use runloom_protocol::ag_ui::{AgUiEvent, Interrupt, TokenUsage};
use runloom_protocol::event::{ApprovalRequested, AssistantMessage, Event};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};
use runloom_protocol::resource::HistoryMessage;
use serde_json::{Value, json};

use crate::history::fold::{
    ToolMessageIds, client_result_message, message_id, reasoning_id, tool_result_message,
};

/// What follows from an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// An event of AG-UI.
    Event(AgUiEvent),
    /// The messages of the thread, of this run those up to an event of its log.
    Snapshot { through: u64 },
    /// The run has ended.
    End(RunEnd),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunEnd {
    Succeeded {
        usage: Vec<TokenUsage>,
    },
    Cancelled {
        usage: Vec<TokenUsage>,
    },
    Failed {
        message: String,
        code: String,
        usage: Vec<TokenUsage>,
    },
}

/// What a client knows about the calls of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownCalls {
    /// Calls whose results the client has: they are not sent to it.
    pub(crate) client_has: HashSet<String>,
    /// Calls and approvals that are answered although the log does not show it yet.
    pub(crate) answered: HashSet<String>,
}

/// The translation of one run. Feed it every event of the log, in order.
#[derive(Debug)]
pub(crate) struct Translator {
    run: RunId,
    tool_message_ids: ToolMessageIds,
    calls: KnownCalls,
    text: Option<OpenText>,
    /// Id of the open reasoning.
    reasoning: Option<String>,
    /// Calls that wait for the client, in the model's order.
    asked: Vec<String>,
    /// Calls that the server executes.
    executing: HashSet<String>,
    /// Approvals that are not decided, oldest first.
    approvals: Vec<ApprovalRequested>,
}

#[derive(Debug)]
struct OpenText {
    id: String,
    text: String,
}

/// When an event was written, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) at: Millis,
}

impl Translator {
    pub(crate) fn new(run: RunId, tool_message_ids: ToolMessageIds, calls: KnownCalls) -> Self {
        Self {
            run,
            tool_message_ids,
            calls,
            text: None,
            reasoning: None,
            asked: Vec::new(),
            executing: HashSet::new(),
            approvals: Vec::new(),
        }
    }

    /// The calls that the run waits for the client to answer, unless the server is still executing others.
    pub(crate) fn pending(&self) -> Vec<String> {
        if !self.executing.is_empty() {
            return Vec::new();
        }
        let open = self.asked.iter();
        open.filter(|id| !self.calls.answered.contains(*id))
            .cloned()
            .collect()
    }

    /// The approvals that the run, or one below it, waits for.
    pub(crate) fn interrupts(&self) -> Vec<Interrupt> {
        let open = self.approvals.iter();
        open.filter(|asked| !self.calls.answered.contains(asked.approval_id.as_str()))
            .map(interrupt)
            .collect()
    }

    /// Translates the next event.
    pub(crate) fn apply(&mut self, place: Place, event: Event) -> Vec<Output> {
        let mut out = Vec::new();
        match event {
            Event::AssistantDelta(delta) => self.say(place.seq, delta.text, &mut out),
            Event::ThinkingDelta(delta) => self.think(place.seq, delta.text, &mut out),
            Event::AssistantMessage(message) => self.turn(place.seq, message, &mut out),
            Event::TurnRestarted(_) => {
                self.close(&mut out);
                out.push(Output::Snapshot { through: place.seq });
            }
            Event::ToolCall(call) => {
                self.executing.insert(call.tool_use_id);
            }
            Event::ToolResult(result) => {
                self.executing.remove(&result.tool_use_id);
                let message = tool_result_message(&self.run, place.seq, place.at, result);
                out.extend(tool_call_result(message));
            }
            Event::LocalToolCall(call) => self.asked.push(call.tool_use_id),
            Event::LocalToolResultIn(result) => {
                self.asked.retain(|id| *id != result.tool_use_id);
                if !self.calls.client_has.contains(&result.tool_use_id) {
                    let place = (place.seq, place.at);
                    let ids = &self.tool_message_ids;
                    let message = client_result_message(&self.run, ids, place, result);
                    out.extend(tool_call_result(message));
                }
            }
            Event::ModelFallback(_)
            | Event::ContextCompacted(_)
            | Event::LoopDetected(_)
            | Event::ToolBudgetExceeded(_)
            | Event::Subagent(_)
            | Event::SubAction(_)
            | Event::ToolFiles(_) => out.extend(custom(&event)),
            Event::ApprovalRequested(ref asked) => {
                self.approvals.push(asked.clone());
                out.extend(custom(&event));
            }
            Event::ApprovalDecided(ref decided) => {
                let id = &decided.approval_id;
                self.approvals.retain(|asked| asked.approval_id != *id);
                out.extend(custom(&event));
            }
            Event::Started(_) => {}
            Event::Result(result) => {
                self.close(&mut out);
                let usage = usage(&result.model, &result.tokens);
                out.push(Output::End(RunEnd::Succeeded { usage }));
            }
            Event::Error(error) => {
                self.close(&mut out);
                out.push(Output::End(RunEnd::Failed {
                    usage: usage(&error.model, &error.tokens),
                    message: error.error,
                    code: error.error_class.as_str().to_owned(),
                }));
            }
            Event::Cancelled(receipt) => {
                self.close(&mut out);
                let model = receipt.model.as_ref();
                let usage = model.map_or_else(Vec::new, |model| usage(model, &receipt.tokens));
                out.push(Output::End(RunEnd::Cancelled { usage }));
            }
        }
        out
    }

    fn say(&mut self, seq: u64, delta: String, out: &mut Vec<Output>) {
        if delta.is_empty() {
            return;
        }
        self.close_reasoning(out);
        let open = match &mut self.text {
            Some(open) => open,
            None => {
                let id = message_id(&self.run, seq);
                out.push(text_start(&id));
                self.text.insert(OpenText {
                    id,
                    text: String::new(),
                })
            }
        };
        open.text.push_str(&delta);
        out.push(text_content(&open.id, delta));
    }

    fn think(&mut self, seq: u64, delta: String, out: &mut Vec<Output>) {
        if delta.is_empty() {
            return;
        }
        let message_id = match &self.reasoning {
            Some(id) => id.clone(),
            None => {
                let id = reasoning_id(&self.run, seq);
                out.push(Output::Event(AgUiEvent::ReasoningStart {
                    message_id: id.clone(),
                }));
                out.push(Output::Event(AgUiEvent::ReasoningMessageStart {
                    message_id: id.clone(),
                    role: "reasoning",
                }));
                self.reasoning.insert(id).clone()
            }
        };
        out.push(Output::Event(AgUiEvent::ReasoningMessageContent {
            message_id,
            delta,
        }));
    }

    fn turn(&mut self, seq: u64, message: AssistantMessage, out: &mut Vec<Output>) {
        self.close_reasoning(out);
        let (id, rest) = match self.text.take() {
            Some(open) => {
                let rest = message.text.strip_prefix(&open.text);
                (open.id, rest.unwrap_or_default().to_owned())
            }
            None => {
                let id = message_id(&self.run, seq);
                if !message.text.is_empty() {
                    out.push(text_start(&id));
                }
                (id, message.text.clone())
            }
        };
        if !rest.is_empty() {
            out.push(text_content(&id, rest));
        }
        if !message.text.is_empty() {
            out.push(text_end(&id));
        }
        for call in message.tool_calls {
            out.push(Output::Event(AgUiEvent::ToolCallStart {
                tool_call_id: call.id.clone(),
                tool_call_name: call.name,
                parent_message_id: id.clone(),
            }));
            out.push(Output::Event(AgUiEvent::ToolCallArgs {
                tool_call_id: call.id.clone(),
                delta: call.input.to_string(),
            }));
            out.push(Output::Event(AgUiEvent::ToolCallEnd {
                tool_call_id: call.id,
            }));
        }
    }

    /// Ends what is open: a turn that will not be completed.
    fn close(&mut self, out: &mut Vec<Output>) {
        self.close_reasoning(out);
        if let Some(open) = self.text.take() {
            out.push(text_end(&open.id));
        }
    }

    fn close_reasoning(&mut self, out: &mut Vec<Output>) {
        if let Some(message_id) = self.reasoning.take() {
            out.push(Output::Event(AgUiEvent::ReasoningMessageEnd {
                message_id: message_id.clone(),
            }));
            out.push(Output::Event(AgUiEvent::ReasoningEnd { message_id }));
        }
    }
}

fn text_start(id: &str) -> Output {
    Output::Event(AgUiEvent::TextMessageStart {
        message_id: id.to_owned(),
        role: "assistant",
    })
}

fn text_content(id: &str, delta: String) -> Output {
    Output::Event(AgUiEvent::TextMessageContent {
        message_id: id.to_owned(),
        delta,
    })
}

fn text_end(id: &str) -> Output {
    Output::Event(AgUiEvent::TextMessageEnd {
        message_id: id.to_owned(),
    })
}

/// The event from which a client builds the same message.
fn tool_call_result(message: HistoryMessage) -> Option<Output> {
    Some(Output::Event(AgUiEvent::ToolCallResult {
        message_id: message.id,
        tool_call_id: message.tool_call_id?,
        role: "tool",
        content: message.content.unwrap_or_default(),
        metadata: message.metadata,
    }))
}

/// An approval as AG-UI has it.
fn interrupt(asked: &ApprovalRequested) -> Interrupt {
    let question = format!("The call of `{}` waits for an approval.", asked.name);
    Interrupt {
        id: asked.approval_id.to_string(),
        reason: "tool_call",
        tool_call_id: asked.tool_use_id.clone(),
        message: match &asked.reason {
            Some(reason) => format!("{question} {reason}"),
            None => question,
        },
        expires_at: asked.expires_at.clone(),
        response_schema: json!({
            "type": "object",
            "required": ["approved"],
            "properties": {
                "approved": {"type": "boolean", "description": "Whether the call is executed."},
                "input": {"type": "object", "description": "Arguments to execute instead."},
            },
        }),
    }
}

/// An event that AG-UI has no event for.
fn custom(event: &Event) -> Option<Output> {
    let mut value = serde_json::to_value(event).ok()?;
    let payload = value.get_mut("data").map(Value::take)?;
    Some(Output::Event(AgUiEvent::Custom {
        name: format!("runloom.{}", event.kind().as_str()),
        value: payload,
    }))
}

fn usage(model: &ModelInfo, tokens: &Tokens) -> Vec<TokenUsage> {
    vec![TokenUsage {
        provider: model.provider.clone(),
        model: model.id.clone(),
        input_tokens: tokens.input_tokens,
        output_tokens: tokens.output_tokens,
        total_tokens: tokens.input_tokens.saturating_add(tokens.output_tokens),
        reasoning_tokens: tokens.reasoning_tokens,
        cached_input_tokens: tokens.cached_tokens,
    }]
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
