//! The span builder: folds the spans of a run from its records.

use std::collections::HashMap;

use runloom_protocol::event::{AssistantMessage, Event, Terminal};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};

use super::{names, span_of, trace_of};
use crate::run::{Note, Record};
use runloom_ports::trace::{Attribute, Nanos, Span, SpanId, TraceId, TraceParent};

/// Maximum spans of one run; further ones are counted.
const MOST_SPANS: usize = 2_000;
/// Maximum marks of one span.
const MOST_MARKS: usize = 64;
/// Longest message of an error.
const ERROR_CHARS: usize = 500;

/// The facts about a run that are known before its first record.
#[derive(Debug, Clone)]
pub struct TracedRun {
    /// Which run.
    pub run: RunId,
    /// Slug of its workspace.
    pub workspace: String,
    /// The span of its client that it belongs to.
    pub parent: Option<TraceParent>,
    /// Its session.
    pub session: Option<String>,
    /// Id of its persisted agent.
    pub agent: Option<String>,
    /// Name given by the client.
    pub name: Option<String>,
    /// The model.
    pub model: ModelInfo,
    /// It has an output schema.
    pub wants_json: bool,
    /// When it was accepted.
    pub accepted: Nanos,
}

/// A trace in the making.
#[derive(Debug)]
pub struct SpanBuilder {
    who: TracedRun,
    trace: TraceId,
    root: SpanId,
    spans: Vec<Span>,
    dropped: u64,
    /// Start of the current activity.
    since: Nanos,
    /// Marks of the current turn.
    marks: Vec<(Nanos, &'static str)>,
    has_spoken: bool,
    /// A complete turn whose tokens follow in the next note.
    said: Option<Span>,
    turns: u32,
    calls: HashMap<String, Called>,
    root_marks: Vec<(Nanos, &'static str)>,
}

#[derive(Debug)]
struct Called {
    name: String,
    at: Nanos,
    by: &'static str,
}

impl SpanBuilder {
    /// The builder of a run with an empty log.
    #[must_use]
    pub fn new(who: TracedRun) -> Self {
        let trace = who
            .parent
            .map_or_else(|| trace_of(&who.run), |parent| parent.trace);
        Self {
            trace,
            root: span_of(&who.run, names::INVOKE_AGENT),
            since: who.accepted,
            who,
            spans: Vec::new(),
            dropped: 0,
            marks: Vec::new(),
            has_spoken: false,
            said: None,
            turns: 0,
            calls: HashMap::new(),
            root_marks: Vec::new(),
        }
    }

    /// Folds one record of the log, in its order.
    pub fn see(&mut self, record: &Record, at: Nanos) {
        match record {
            Record::Event(event) => self.event(event, at),
            Record::Note(note) => self.note(note, at),
        }
    }

    /// The span of a call in flight, as the parent of spans of the called party.
    #[must_use]
    pub fn call(&self, tool_use_id: &str) -> TraceParent {
        TraceParent {
            trace: self.trace,
            span: span_of(&self.who.run, tool_use_id),
            sampled: true,
        }
    }

    fn event(&mut self, event: &Event, at: Nanos) {
        match event {
            Event::AssistantDelta(_) | Event::ThinkingDelta(_) => {
                if !self.has_spoken {
                    self.has_spoken = true;
                    mark(&mut self.marks, at, names::FIRST_WORD);
                }
            }
            Event::Started(_) => {
                mark(&mut self.root_marks, at, names::STARTED);
                self.since = at;
            }
            Event::TurnRestarted(_) => {
                self.has_spoken = false;
                mark(&mut self.marks, at, names::RESTARTED);
            }
            Event::ModelFallback(other) => {
                // Each model answers for its own time.
                let part = format!("{}/{}/primary", names::CHAT, self.turns);
                let mut failed = self.chat_of(&part, at);
                fail(&mut failed, other.error_class.as_str(), "");
                self.push(failed);
                mark(&mut self.root_marks, at, names::FALLBACK);
                self.who.model = other.model.clone();
                self.since = at;
            }
            Event::AssistantMessage(message) => self.turn(message, at),
            Event::ToolCall(call) => self.called(&call.tool_use_id, &call.name, "server", at),
            Event::LocalToolCall(call) => self.called(&call.tool_use_id, &call.name, "client", at),
            Event::ToolResult(result) => {
                let error = (!result.ok).then(String::new);
                self.answered(&result.tool_use_id, error, at);
            }
            Event::LocalToolResultIn(result) => {
                self.answered(
                    &result.tool_use_id,
                    result.error.as_ref().map(|_| String::new()),
                    at,
                );
            }
            Event::LoopDetected(_) => mark(&mut self.root_marks, at, names::LOOP_DETECTED),
            // A run below is a span of its own.
            Event::Subagent(_) => {}
            Event::ToolBudgetExceeded(_) => mark(&mut self.root_marks, at, names::BUDGET_EXCEEDED),
            Event::ApprovalRequested(_) => {
                mark(&mut self.root_marks, at, names::APPROVAL_REQUESTED)
            }
            Event::ApprovalDecided(_) => mark(&mut self.root_marks, at, names::APPROVAL_DECIDED),
            Event::ContextCompacted(_) => {
                mark(&mut self.root_marks, at, names::COMPACTED);
                self.since = at;
            }
            Event::ToolFiles(_) | Event::SubAction(_) => {}
            Event::Result(result) => self.ended(Terminal::Result(result), at),
            Event::Error(error) => self.ended(Terminal::Error(error), at),
            Event::Cancelled(receipt) => self.ended(Terminal::Cancelled(receipt), at),
        }
    }

    fn note(&mut self, note: &Note, at: Nanos) {
        match note {
            Note::Turn { tokens, .. } => {
                if let Some(mut span) = self.said.take() {
                    span.attributes.extend(spent(tokens));
                    self.push(span);
                }
            }
            Note::Toolset { .. } => {
                let span = self.span(names::RESOLVE_TOOLS, names::RESOLVE_TOOLS, at);
                self.push(span);
                self.since = at;
            }
            _ => {}
        }
    }

    fn turn(&mut self, message: &AssistantMessage, at: Nanos) {
        let mut span = self.chat(at);
        if let Some(reason) = &message.finish_reason {
            let reasons = Attribute::Texts(vec![reason.clone()]);
            span.attributes.push((names::FINISH_REASONS, reasons));
        }
        self.said = Some(span);
        self.since = at;
    }

    /// The span of the turn that ends now.
    fn chat(&mut self, at: Nanos) -> Span {
        let span = self.chat_of(&format!("{}/{}", names::CHAT, self.turns), at);
        self.turns = self.turns.saturating_add(1);
        span
    }

    /// The span of the last model call.
    fn chat_of(&mut self, part: &str, at: Nanos) -> Span {
        self.flush();
        let model = &self.who.model.vendor_model_id;
        let mut span = self.span(&format!("{} {model}", names::CHAT), part, at);
        span.is_call = true;
        span.marks = std::mem::take(&mut self.marks);
        self.has_spoken = false;
        let turn = Attribute::Count(self.turns.into());
        span.attributes.push((names::OPERATION, text(names::CHAT)));
        span.attributes.push((names::TURN, turn));
        span.attributes.extend(self.model());
        if self.who.wants_json {
            span.attributes.push((names::OUTPUT_TYPE, text("json")));
        }
        span
    }

    fn called(&mut self, id: &str, name: &str, by: &'static str, at: Nanos) {
        let called = Called {
            name: name.to_owned(),
            at,
            by,
        };
        self.calls.insert(id.to_owned(), called);
    }

    /// A call has its result. A call that a guard answered was never made and has no span.
    fn answered(&mut self, id: &str, error: Option<String>, at: Nanos) {
        self.since = at;
        let Some(called) = self.calls.remove(id) else {
            return;
        };
        let name = format!("{} {}", names::EXECUTE_TOOL, called.name);
        let mut span = self.span(&name, id, at);
        span.start = called.at;
        span.attributes = vec![
            (names::OPERATION, text(names::EXECUTE_TOOL)),
            (names::TOOL_NAME, Attribute::Text(called.name)),
            (names::TOOL_CALL, text(id)),
            (names::EXECUTED_BY, text(called.by)),
        ];
        if let Some(error) = error {
            fail(&mut span, "tool_error", &error);
        }
        self.push(span);
    }

    /// The last record: open spans end with it.
    fn ended(&mut self, end: Terminal<'_>, at: Nanos) {
        let (turns, failure) = match end {
            Terminal::Error(error) => {
                let class = error.error_class.as_str();
                (error.turns, Some((class, error.error.clone())))
            }
            Terminal::Cancelled(receipt) => (receipt.turns, Some(("cancelled", String::new()))),
            Terminal::Result(_) => (self.turns, None),
        };
        if turns > self.turns {
            let mut span = self.chat(at);
            if let Some((class, message)) = &failure {
                fail(&mut span, class, message);
            }
            self.push(span);
        }
        let mut open: Vec<String> = self.calls.keys().cloned().collect();
        open.sort();
        for id in open {
            self.answered(&id, Some("the run ended before the tool".to_owned()), at);
        }
        self.flush();
        let root = self.root(end, at);
        self.spans.push(root);
    }

    fn root(&mut self, end: Terminal<'_>, at: Nanos) -> Span {
        let who = &self.who;
        let called = who.name.as_deref().or(who.agent.as_deref());
        let name = called.map_or_else(
            || names::INVOKE_AGENT.to_owned(),
            |called| format!("{} {called}", names::INVOKE_AGENT),
        );
        let mut span = self.span(&name, names::INVOKE_AGENT, at);
        span.start = who.accepted;
        span.parent = who.parent.map(|parent| parent.span);
        span.is_remote_child = who.parent.is_some();
        let list = &mut span.attributes;
        list.push((names::OPERATION, text(names::INVOKE_AGENT)));
        list.extend(self.model());
        list.push((names::RUN, text(who.run.as_str())));
        list.push((names::WORKSPACE, text(&who.workspace)));
        let known = [
            (names::CONVERSATION, &who.session),
            (names::AGENT_ID, &who.agent),
            (names::AGENT_NAME, &who.name),
        ];
        list.extend(known.into_iter().filter_map(|(key, value)| {
            let value = value.as_deref()?;
            Some((key, text(value)))
        }));
        let (status, tokens, turns, cost) = match end {
            Terminal::Result(end) => ("succeeded", end.tokens, end.turns, end.cost_usd),
            Terminal::Error(end) => ("failed", end.tokens, end.turns, end.cost_usd),
            Terminal::Cancelled(end) => ("cancelled", end.tokens, end.turns, end.cost_usd),
        };
        list.push((names::STATUS, text(status)));
        list.push((names::TURNS, Attribute::Count(turns.into())));
        list.extend(spent(&tokens));
        list.extend(cost.map(|cost| (names::COST, Attribute::Measure(cost))));
        if self.dropped > 0 {
            list.push((names::DROPPED, Attribute::Count(self.dropped)));
        }
        span.marks = std::mem::take(&mut self.root_marks);
        if let Terminal::Error(end) = end {
            fail(&mut span, end.error_class.as_str(), &end.error);
        }
        span
    }

    /// The spans of the run, when it has ended.
    #[must_use]
    pub fn spans(self) -> Vec<Span> {
        self.spans
    }

    fn model(&self) -> [(&'static str, Attribute); 2] {
        let model = &self.who.model;
        [
            (names::PROVIDER, text(names::provider(&model.provider))),
            (names::REQUEST_MODEL, text(&model.vendor_model_id)),
        ]
    }

    /// A span below the run's own that ends now.
    fn span(&self, name: &str, part: &str, at: Nanos) -> Span {
        Span {
            name: name.to_owned(),
            trace: self.trace,
            id: span_of(&self.who.run, part),
            parent: Some(self.root),
            is_remote_child: false,
            is_call: false,
            start: self.since,
            end: at.max(self.since),
            attributes: Vec::new(),
            marks: Vec::new(),
            error: None,
        }
    }

    /// Closes a turn without reported tokens.
    fn flush(&mut self) {
        if let Some(span) = self.said.take() {
            self.push(span);
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() < MOST_SPANS {
            self.spans.push(span);
        } else {
            self.dropped += 1;
        }
    }
}

fn mark(marks: &mut Vec<(Nanos, &'static str)>, at: Nanos, what: &'static str) {
    if marks.len() < MOST_MARKS {
        marks.push((at, what));
    }
}

fn fail(span: &mut Span, class: &str, message: &str) {
    span.attributes.push((names::ERROR_TYPE, text(class)));
    span.error = Some(message.chars().take(ERROR_CHARS).collect());
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.to_owned())
}

fn spent(tokens: &Tokens) -> [(&'static str, Attribute); 4] {
    [
        (names::INPUT_TOKENS, tokens.input_tokens),
        (names::CACHED_TOKENS, tokens.cached_tokens),
        (names::OUTPUT_TOKENS, tokens.output_tokens),
        (names::REASONING_TOKENS, tokens.reasoning_tokens),
    ]
    .map(|(name, count)| (name, Attribute::Count(count)))
}

#[cfg(test)]
#[path = "span_builder_tests.rs"]
mod tests;
