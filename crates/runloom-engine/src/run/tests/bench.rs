//! A driver without a world: performs the machine's steps by hand and keeps the log as the store would.

use std::sync::Arc;

use bytes::BytesMut;
use runloom_protocol::approval::{ApprovalVerdict, DecidedBy, DeciderKind, Ruling};
use runloom_protocol::event::{
    ApprovalRequested, AssistantMessage, Event, RequestedCall, TextDelta,
};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ErrorClass, ModelInfo, StructuredOutput, Tokens, finish_reason};
use runloom_protocol::spec::{Budgets, LoopDetection, ToolAnswer};
use serde_json::{Value, json};

use crate::driver::fold;
use crate::run::{
    ApprovalAsk, CallPlan, Decided, ModelFacts, Note, PlacedNote, Plan, Record, RunState, Step,
    answer, approval_id, decide, default_tool_budgets, expire, fall_back, next,
};
use crate::toolbox::Toolbox;
use runloom_ports::model::{Capabilities, Message, ModelError, ProviderState};
use runloom_ports::store::{Chunk, LogEntry, Millis};
use runloom_schema::SchemaCache;

/// Milliseconds that a client has to answer.
pub(super) const TIMEOUT: i64 = 1_000;

/// More steps than any run of these tests needs between two things from outside.
const STEPS: usize = 64;

/// A plan with four client tools: `look` and `find` are read-only, `send` and `typed` are not; `typed` wants `{"n":
/// integer}`.
pub(crate) fn plan(change: impl FnOnce(&mut Plan)) -> Arc<Plan> {
    let tools = json!([
        {"kind": "local", "name": "look", "readOnly": true},
        {"kind": "local", "name": "find", "readOnly": true},
        {"kind": "local", "name": "send"},
        {"kind": "local", "name": "typed", "parameters":
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    ]);
    let refs: Vec<_> = serde_json::from_value(tools).unwrap();
    let mut plan = Plan {
        run: RunId::from_suffix("bench"),
        system: "be brief".into(),
        history_len: 0,
        compaction: None,
        opening: vec![Message::User {
            text: "hello".into(),
        }]
        .into(),
        toolbox: Arc::new(Toolbox::build(&refs, &SchemaCache::new()).unwrap()),
        has_server_tools: false,
        schemas: Arc::new(SchemaCache::new()),
        reasoning_level: None,
        output: None,
        primary: model_facts("bench"),
        fallback: None,
        has_monthly_budgets: false,
        max_tool_turns: 32,
        loop_detection: LoopDetection::default(),
        tool_budgets: default_tool_budgets(None),
        has_call_policy: false,
        policies: Vec::new(),
        budgets: Budgets::default(),
        client_timeout_ms: None,
        place: Default::default(),
    };
    change(&mut plan);
    Arc::new(plan)
}

/// A model without a price.
pub(super) fn model_facts(name: &str) -> ModelFacts {
    ModelFacts {
        model: ModelInfo {
            id: format!("platform:{name}"),
            provider: "demo".to_owned(),
            vendor_model_id: name.to_owned(),
            reasoning_effort: None,
        },
        capabilities: Capabilities::default(),
        price: None,
        context_window: None,
        max_output_tokens: None,
    }
}

/// What the model does in one turn.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) text: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) finish: String,
    pub(super) tokens: Tokens,
    pub(super) structured: StructuredOutput,
    pub(super) state: Option<ProviderState>,
}

/// A turn that only speaks.
pub(super) fn says(text: &str) -> Turn {
    Turn {
        text: text.to_owned(),
        calls: Vec::new(),
        finish: finish_reason::END_TURN.to_owned(),
        tokens: Tokens::default(),
        structured: StructuredOutput::default(),
        state: None,
    }
}

/// A turn that calls tools.
pub(super) fn calls(calls: &[(&str, Value)]) -> Turn {
    let own = |(name, input): &(&str, Value)| ((*name).to_owned(), input.clone());
    Turn {
        calls: calls.iter().map(own).collect(),
        finish: finish_reason::TOOL_USE.to_owned(),
        ..says("")
    }
}

impl Turn {
    pub(super) fn ends(mut self, finish: &str) -> Self {
        self.finish = finish.to_owned();
        self
    }
}

/// A person approves, with other arguments if given.
pub(super) fn approve(input: Option<Value>) -> Ruling {
    Ruling {
        decision: ApprovalVerdict::Approve,
        input,
        sub_decisions: Vec::new(),
        note: None,
    }
}

/// A person denies, and says why.
pub(super) fn deny(note: &str) -> Ruling {
    Ruling {
        decision: ApprovalVerdict::Deny,
        note: Some(note.to_owned()),
        ..approve(None)
    }
}

/// One run under test.
pub(super) struct Bench {
    pub(super) state: RunState,
    pub(super) now: i64,
    /// Every event so far.
    pub(super) events: Vec<Event>,
    /// The log as it would be stored.
    pub(super) log: Vec<LogEntry>,
    frames: BytesMut,
    notes: Vec<PlacedNote>,
    flushed: u64,
}

impl Bench {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self {
            state: RunState::new(plan),
            now: 0,
            events: Vec::new(),
            log: Vec::new(),
            frames: BytesMut::new(),
            notes: Vec::new(),
            flushed: 0,
        }
    }

    fn seq(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn record(&mut self, event: Event) {
        event
            .write_frame(self.seq() + 1, 0, &mut self.frames)
            .unwrap();
        self.events.push(event.clone());
        self.state.apply(Record::Event(event));
    }

    pub(super) fn note(&mut self, note: Note) {
        let after = self.seq();
        let placed = note.clone();
        self.notes.push(PlacedNote {
            after,
            note: placed,
        });
        self.state.apply(Record::Note(note));
    }

    /// Makes everything so far durable, as one batch.
    pub(super) fn flush(&mut self) {
        self.log.extend(self.undurable());
        self.frames.clear();
        self.notes.clear();
        self.flushed = self.seq();
    }

    /// What is not durable yet, as the batch that it would become.
    fn undurable(&self) -> Option<LogEntry> {
        if self.frames.is_empty() && self.notes.is_empty() {
            return None;
        }
        let notes = match self.notes.as_slice() {
            [] => String::new(),
            notes => serde_json::to_string(notes).unwrap(),
        };
        Some(LogEntry {
            chunk: Chunk {
                first_seq: self.flushed + 1,
                last_seq: self.seq(),
                terminal: self.events.last().is_some_and(Event::is_terminal),
                frames: self.frames.clone().freeze(),
            },
            notes,
            at: Millis(self.now),
        })
    }

    /// What another process would make of the log.
    pub(super) fn folded(&self) -> RunState {
        self.fold(self.log.iter())
    }

    /// What another process would make of the log if everything so far were durable.
    pub(super) fn folded_with_pending(&self) -> RunState {
        self.fold(self.log.iter().chain(&self.undurable()))
    }

    fn fold<'a>(&self, entries: impl Iterator<Item = &'a LogEntry>) -> RunState {
        let mut state = RunState::new(Arc::clone(&self.state.plan));
        entries.for_each(|entry| fold(&mut state, entry, |_| {}).unwrap());
        state
    }

    /// Dies and is taken over: what was not durable never happened.
    pub(super) fn crash(&mut self) {
        self.state = self.folded();
        self.events.truncate(usize::try_from(self.flushed).unwrap());
        self.frames.clear();
        self.notes.clear();
    }

    /// Performs what follows from the state alone, up to a step that needs the world.
    pub(super) fn advance(&mut self) -> Step {
        for _ in 0..STEPS {
            match next(&self.state) {
                Step::Write(events) => {
                    assert!(!events.is_empty(), "a step that changes nothing");
                    events.into_iter().for_each(|event| self.record(event));
                }
                Step::Ask(calls) => {
                    assert!(!calls.is_empty(), "a question to nobody");
                    for call in calls {
                        let tool_use_id = call.tool_use_id.clone();
                        self.record(Event::LocalToolCall(call));
                        let deadline = self.now + TIMEOUT;
                        self.note(Note::Asked {
                            tool_use_id,
                            deadline,
                        });
                    }
                    self.flush();
                }
                Step::RequestApprovals(asks) => self.request(asks),
                Step::Economise(reason) => self.note(Note::Economise { reason }),
                outside => return outside,
            }
        }
        panic!("the machine does not come to a step that needs the world");
    }

    fn request(&mut self, asks: Vec<ApprovalAsk>) {
        assert!(!asks.is_empty(), "a request for nothing");
        for ask in asks {
            let tool_use_id = ask.request.tool_use_id.clone();
            let deadline = self.now + TIMEOUT;
            let expires_at = deadline.to_string();
            self.record(Event::ApprovalRequested(ApprovalRequested {
                expires_at,
                ..ask.request
            }));
            self.note(Note::AwaitsApproval {
                tool_use_id,
                deadline,
            });
        }
        self.flush();
    }

    /// A person decides about a call; false when it does not wait.
    pub(super) fn decide(&mut self, tool_use_id: &str, ruling: &Ruling) -> bool {
        let approval = approval_id(&self.state.plan.run, tool_use_id);
        let by = DecidedBy {
            kind: DeciderKind::Key,
            id: Some("key_1".to_owned()),
        };
        let decided = Decided {
            approval: &approval,
            ruling,
            by: &by,
            at: self.now.to_string(),
        };
        let event = decide(&self.state, &decided);
        event.map(|event| self.record(event)).is_some()
    }

    /// Ids of the calls that wait for a person.
    pub(super) fn pending(&self) -> Vec<String> {
        let pending =
            |call: &&crate::run::Call| matches!(call.state, crate::run::CallState::Pending { .. });
        let ids = self.state.calls.iter().filter(pending);
        ids.map(|call| call.id.clone()).collect()
    }

    /// The model call that comes next.
    pub(super) fn call_plan(&mut self) -> CallPlan {
        match self.advance() {
            Step::CallModel(plan) => plan,
            other => panic!("expected a model call, not {other:?}"),
        }
    }

    /// The turn fails for good; true when another model takes over.
    pub(super) fn fails(&mut self, class: ErrorClass) -> bool {
        self.call_plan();
        let event = fall_back(&self.state, &ModelError::new(class, "it fails"));
        event.map(|event| self.record(event)).is_some()
    }

    /// Calls the model, which does this.
    pub(super) fn turn(&mut self, turn: Turn) -> CallPlan {
        let plan = self.call_plan();
        self.complete(plan, turn);
        plan
    }

    pub(super) fn delta(&mut self, text: &str) {
        let text = text.to_owned();
        self.record(Event::AssistantDelta(TextDelta { text }));
    }

    pub(super) fn complete(&mut self, plan: CallPlan, turn: Turn) {
        let ids = |prefix: &str| -> Vec<String> {
            let numbers = 1..=turn.calls.len();
            numbers
                .map(|place| format!("{prefix}_{}_{place}", plan.turn))
                .collect()
        };
        let requested = ids("tu").into_iter().zip(turn.calls.clone());
        self.record(Event::AssistantMessage(AssistantMessage {
            text: turn.text,
            turn: plan.turn - 1,
            finish_reason: Some(turn.finish),
            tool_calls: requested
                .map(|(id, (name, input))| RequestedCall { id, name, input })
                .collect(),
            model: Some(self.state.current_model().model.id.clone()),
            ..AssistantMessage::default()
        }));
        self.note(Note::Turn {
            tokens: turn.tokens,
            call_ids: ids("vendor"),
            state: turn.state,
            structured: turn.structured,
        });
    }

    /// A client answers; false when no such call waits.
    pub(super) fn answer(&mut self, tool_use_id: &str, text: &str) -> bool {
        let said = ToolAnswer::Result(text.to_owned());
        match answer(&self.state, tool_use_id, &said) {
            Some(event) => {
                self.record(event);
                true
            }
            None => false,
        }
    }

    /// Answers every call that waits until the model is called or the run ends.
    pub(super) fn answer_all(&mut self) -> Step {
        loop {
            let step = self.advance();
            if !matches!(step, Step::Wait { .. }) {
                return step;
            }
            for id in self.pending() {
                assert!(self.decide(&id, &approve(None)));
            }
            let asked = self.asked();
            asked.iter().for_each(|id| assert!(self.answer(id, "done")));
        }
    }

    /// Time passes until `now`.
    pub(super) fn expire_at(&mut self, now: i64) -> usize {
        self.now = now;
        let late = expire(&self.state, now);
        let count = late.len();
        late.into_iter().for_each(|event| self.record(event));
        count
    }

    /// Ids of the calls that wait for a client.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked =
            |call: &&crate::run::Call| matches!(call.state, crate::run::CallState::Asked { .. });
        let ids = self.state.calls.iter().filter(asked);
        ids.map(|call| call.id.clone()).collect()
    }

    /// The terminal event that comes next.
    pub(super) fn end(&mut self) -> Event {
        match self.advance() {
            Step::Finish(event) => {
                self.record(event.clone());
                event
            }
            other => panic!("expected the end, not {other:?}"),
        }
    }

    /// Kinds of the events after the first `from`.
    pub(super) fn kinds(&self, from: usize) -> Vec<&'static str> {
        self.events[from..]
            .iter()
            .map(|event| event.kind().as_str())
            .collect()
    }

    /// What the model reads last.
    pub(super) fn last_message(&self) -> &Message {
        self.state.messages.iter().next_back().expect("a message")
    }

    /// Texts of the conversation's user messages.
    pub(super) fn user_texts(&self) -> Vec<&str> {
        self.state
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::User { text } => Some(&**text),
                _ => None,
            })
            .collect()
    }

    /// Contents of the conversation's last `count` tool results.
    pub(super) fn tool_results(&self, count: usize) -> Vec<(String, String, bool)> {
        let mut results: Vec<_> = self
            .state
            .messages
            .iter()
            .rev()
            .filter_map(|message| match message {
                Message::Tool {
                    call_id,
                    content,
                    is_error,
                    ..
                } => Some((call_id.clone(), content.clone(), *is_error)),
                _ => None,
            })
            .take(count)
            .collect();
        results.reverse();
        results
    }
}
