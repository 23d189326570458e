//! The fold: from records to the state of a run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use runloom_protocol::event::{AssistantMessage, Event, RequestedCall};
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::outcome::{StructuredOutput, Tokens, finish_reason};
use runloom_protocol::spec::{CompactedHistory, RetainedCall};

pub use super::call::{Call, CallState};
use super::compaction::Measured;
use super::delegation::Stopping;
use super::guard::{self, Guards, Verdict};
use super::plan::Plan;
use super::record::{Note, Record};
use super::tool_files::PendingFiles;
use super::transcript::Transcript;
use crate::toolbox::Toolbox;
use runloom_ports::model::{CallRequest, Message, ProviderState, StructuredSupport};
use runloom_ports::store::{MicroUsd, TreeUsage};

/// State of a run. Created by [`RunState::new`] and changed by [`RunState::apply`] alone.
#[derive(Debug, Clone)]
pub struct RunState {
    /// The constant part.
    pub plan: Arc<Plan>,
    /// The conversation so far; legal at every model call.
    pub messages: Transcript,
    /// The tools, those of the server included once they are resolved.
    pub toolbox: Arc<Toolbox>,
    /// The server's tools are resolved, or the run has none.
    pub resolved: bool,
    /// Calls of the current tool turn, in the model's order; empty between tool turns.
    pub calls: Vec<Call>,
    /// `started` is in the log.
    pub started: bool,
    /// A terminal event is in the log.
    pub ended: bool,
    /// Model invocations that are complete.
    pub turns: u32,
    /// WritePermits that called tools.
    pub tool_turns: u32,
    /// Calls asked for by the model.
    pub tool_calls: u32,
    /// Tokens of the complete turns, and the reported tokens of the others.
    pub tokens: Tokens,
    /// Why the run makes only one more call, when its money is nearly used.
    pub economising: Option<String>,
    /// Tokens used before the fallback took over.
    pub(super) before_fallback: Option<Tokens>,
    /// What later runs of the session read in place of its beginning.
    pub compacted: Option<CompactedHistory>,
    /// The first message of the conversation that is of this run.
    pub(super) first_own: usize,
    /// The last reported size of the request.
    pub(super) measured: Option<Measured>,
    /// The provider refused the last request as too long.
    pub(super) is_too_long: bool,
    /// How often it refused requests of the turn that is under way.
    pub(super) overflows: u32,
    /// Tokens of summaries that another model wrote; part of `tokens`.
    pub(super) summary_tokens: Tokens,
    /// Their cost; `None` when it is unknown.
    pub(super) summary_pico: Option<u128>,
    /// Results for later runs of the session.
    pub retained: Vec<RetainedCall>,
    /// Possible cost, beyond the tokens, of calls whose end is unknown.
    pub(super) lost: MicroUsd,
    /// Worst-case cost of the call in flight.
    pub(super) reserved: Option<MicroUsd>,
    /// Deltas of a turn that is not complete are in the log.
    pub shown: bool,
    /// Number of restarts of the current turn after it had shown text.
    pub restarts: u32,
    /// Start of the deferral, in milliseconds since the Unix epoch.
    pub deferred_since: Option<i64>,
    /// State of the output schema so far.
    pub structured: StructuredOutput,
    /// The last complete turn, when it called no tools.
    pub(super) answer: Option<Answer>,
    /// The hidden output tool was forced once.
    pub(super) forced: bool,
    /// Malformed function calls that were given back.
    pub(super) malformed: u32,
    /// Usage of ended children and all runs below them.
    pub below: TreeUsage,
    /// Number of started runs below this one.
    pub sub_runs: u32,
    /// The cancel that waits for the runs below.
    pub stopping: Option<Stopping>,
    pub(super) guards: Guards,
    /// A turn whose note has not been folded yet.
    pub(super) message: Option<AssistantMessage>,
    /// Full outputs whose `tool_result` follows.
    pub(super) outputs: HashMap<String, String>,
    /// Files that tools returned.
    pub(crate) tool_files: PendingFiles,
    /// Decisions of the call policy, by call.
    pub(super) judged: HashMap<String, super::judging::NotedDecision>,
    /// Approvals of runs below that are pending.
    pub(super) approvals_below: BTreeMap<ApprovalId, RunId>,
}

/// A turn that called no tools.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) finish_reason: String,
    pub(super) structured: StructuredOutput,
}

impl Answer {
    /// Whether the turn ended in a way that makes its text unusable as an answer.
    pub(super) fn is_broken(&self) -> bool {
        use finish_reason::{CONTENT_FILTER, MALFORMED_FUNCTION_CALL, MAX_TOKENS, REFUSAL};
        match self.finish_reason.as_str() {
            MAX_TOKENS | MALFORMED_FUNCTION_CALL | CONTENT_FILTER => true,
            REFUSAL => self.text.is_empty(),
            _ => false,
        }
    }
}

impl RunState {
    /// The state of a run without records.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let structured = StructuredOutput {
            schema_requested: plan.output.is_some(),
            ..StructuredOutput::default()
        };
        Self {
            messages: Transcript::from(plan.opening.clone()),
            compacted: None,
            first_own: plan.history_len,
            measured: None,
            is_too_long: false,
            overflows: 0,
            summary_tokens: Tokens::default(),
            summary_pico: Some(0),
            toolbox: Arc::clone(&plan.toolbox),
            resolved: !plan.has_server_tools,
            outputs: HashMap::new(),
            tool_files: PendingFiles::default(),
            judged: HashMap::new(),
            approvals_below: BTreeMap::new(),
            plan,
            calls: Vec::new(),
            started: false,
            ended: false,
            turns: 0,
            tool_turns: 0,
            tool_calls: 0,
            tokens: Tokens::default(),
            economising: None,
            before_fallback: None,
            retained: Vec::new(),
            lost: MicroUsd::default(),
            reserved: None,
            shown: false,
            restarts: 0,
            deferred_since: None,
            structured,
            answer: None,
            forced: false,
            malformed: 0,
            below: TreeUsage::default(),
            sub_runs: 0,
            stopping: None,
            guards: Guards::default(),
            message: None,
        }
    }

    /// True when the next turn must not call tools.
    #[must_use]
    pub fn must_finalise(&self) -> bool {
        self.guards.hard_told
            || self.economising.is_some()
            || self.tool_turns >= self.plan.max_tool_turns
    }

    /// Whether the answer did not come through the hidden output tool, which must now be forced.
    pub(super) fn must_force_output(&self) -> bool {
        let structured = self.current_model().capabilities.structured;
        let synthetic = structured == StructuredSupport::SyntheticTool;
        let open = self
            .answer
            .as_ref()
            .is_some_and(|answer| !answer.structured.schema_enforced && !answer.is_broken());
        self.plan.output.is_some() && synthetic && open && !self.forced
    }

    /// Folds one record.
    pub fn apply(&mut self, record: Record) {
        self.deferred_since = None;
        match record {
            Record::Event(event) => self.apply_event(event),
            Record::Note(note) => self.apply_note(note),
        }
        self.close_tool_turn();
    }

    fn apply_event(&mut self, event: Event) {
        match event {
            Event::Started(_) => self.started = true,
            Event::AssistantDelta(_) | Event::ThinkingDelta(_) => self.shown = true,
            Event::TurnRestarted(_) => {
                self.shown = false;
                self.restarts = self.restarts.saturating_add(1);
            }
            Event::ModelFallback(_) => self.apply_fallback(),
            Event::AssistantMessage(message) => {
                self.shown = false;
                self.restarts = 0;
                self.message = Some(message);
            }
            Event::LocalToolCall(call) => {
                self.set(&call.tool_use_id, CallState::Asked { deadline: i64::MAX })
            }
            Event::LocalToolResultIn(result) => {
                let is_error = result.error.is_some();
                let content = result.error.or(result.output).unwrap_or_default();
                self.set(&result.tool_use_id, CallState::Done { content, is_error });
            }
            Event::ToolCall(call) => self.set(&call.tool_use_id, CallState::Called),
            Event::ToolFiles(_) => {}
            Event::ToolResult(result) => {
                let content = self
                    .outputs
                    .remove(&result.tool_use_id)
                    .unwrap_or(result.result);
                self.set(
                    &result.tool_use_id,
                    CallState::Done {
                        content,
                        is_error: !result.ok,
                    },
                );
            }
            Event::LoopDetected(found) => {
                self.guards.soft_told = true;
                self.guards.hard_told |= found.hard_cutoff;
            }
            Event::ToolBudgetExceeded(_) | Event::SubAction(_) | Event::ContextCompacted(_) => {}
            Event::ApprovalRequested(request) => self.apply_approval_requested(request),
            Event::ApprovalDecided(decided) => self.apply_approval_decided(decided),
            Event::Subagent(below) => self.apply_subagent(&below),
            Event::Result(_) | Event::Error(_) | Event::Cancelled(_) => self.ended = true,
        }
    }

    fn apply_note(&mut self, note: Note) {
        match note {
            Note::Turn {
                tokens,
                call_ids,
                state,
                structured,
            } => {
                self.tokens.add(&tokens);
                self.reserved = None;
                if let Some(message) = self.message.take() {
                    self.close_turn(message, call_ids, state, structured);
                    self.overflows = 0;
                    self.measure(&tokens);
                }
            }
            Note::Attempt { tokens, lost } => {
                self.tokens.add(&tokens);
                self.lost = self.lost.plus(MicroUsd(lost));
                self.reserved = None;
            }
            Note::Reserved { micro_usd } => {
                // A reservation that is still there belongs to a call whose end was not recorded.
                let forgotten = self.reserved.replace(MicroUsd(micro_usd));
                self.lost = self.lost.plus(forgotten.unwrap_or_default());
            }
            Note::Economise { reason } => {
                self.economising = Some(reason);
                let text = guard::ECONOMISE.into();
                self.push(Message::User { text });
            }
            Note::ContextOverflow {} => {
                self.is_too_long = true;
                self.overflows = self.overflows.saturating_add(1);
            }
            Note::Compacted { kept, text, usage } => self.apply_compacted(kept, &text, &usage),
            Note::Toolset { tools } => {
                self.toolbox = Arc::new(self.plan.toolbox.with_server(tools, &self.plan.schemas));
                self.resolved = true;
            }
            Note::Output {
                tool_use_id,
                content,
            } => {
                self.outputs.insert(tool_use_id, content);
            }
            Note::UiHints { .. } => {} // for front ends alone
            Note::Judged {
                tool_use_id,
                decision,
                reason,
            } => drop(self.judged.insert(tool_use_id, (decision, reason))),
            Note::Files { tool_use_id, files } => self.tool_files.put(tool_use_id, files),
            Note::Asked {
                tool_use_id,
                deadline,
            } => self.set(&tool_use_id, CallState::Asked { deadline }),
            Note::AwaitsApproval {
                tool_use_id,
                deadline,
            } => self.apply_approval_deadline(&tool_use_id, deadline),
            Note::SubRun { usage } => self.below.add(&usage),
            Note::Stopping {
                reason,
                requested_at,
                interrupted,
            } => {
                self.stopping = Some(Stopping {
                    reason,
                    requested_at,
                    interrupted,
                });
            }
            Note::Deferred { since } => self.deferred_since = Some(since),
        }
    }

    fn close_turn(
        &mut self,
        message: AssistantMessage,
        call_ids: Vec<String>,
        state: Option<ProviderState>,
        structured: StructuredOutput,
    ) {
        self.turns += 1;
        let finish = message
            .finish_reason
            .unwrap_or_else(|| finish_reason::END_TURN.to_owned());
        // Calls of a turn without tools, or of one that was cut off, are dropped; its text stays. The provider's
        // items are dropped with the calls: providers refuse a replayed call that has no result.
        let obeyed =
            message.tool_calls.is_empty() || !(self.must_finalise() || guard::was_cut(&finish));
        let (requested, state) = if obeyed {
            (message.tool_calls, state)
        } else {
            (Vec::new(), None)
        };
        let calls = pair_ids(requested, call_ids);
        self.note_structured(structured);
        self.push(Message::Assistant {
            text: message.text.as_str().into(),
            calls: calls
                .iter()
                .map(|call| CallRequest {
                    id: call.provider_id.clone(),
                    name: call.name.clone(),
                    input: call.input.clone(),
                })
                .collect(),
            state,
        });
        if calls.is_empty() {
            self.guards.quiet_turn();
            self.forced |= self.answer.is_some();
            if finish == finish_reason::MALFORMED_FUNCTION_CALL {
                self.malformed += 1;
                if self.malformed == 1 {
                    self.push(Message::User {
                        text: guard::MALFORMED.into(),
                    });
                    self.answer = None;
                    return;
                }
            }
            self.answer = Some(Answer {
                text: message.text,
                finish_reason: finish,
                structured,
            });
            if self.must_force_output() {
                self.push(Message::User {
                    text: guard::REPORT.into(),
                });
            }
        } else {
            self.guards.turn(guard::signature_of(
                calls.iter().map(|call| (call.name.as_str(), &call.input)),
            ));
            self.tool_turns += 1;
            self.tool_calls = self
                .tool_calls
                .saturating_add(u32::try_from(calls.len()).unwrap_or(u32::MAX));
            self.answer = None;
            self.calls = calls;
        }
    }

    fn note_structured(&mut self, turn: StructuredOutput) {
        self.structured.schema_enforced = turn.schema_enforced;
        self.structured.enforcement_mechanism = turn.enforcement_mechanism;
        self.structured.unconstrained_fallback_occurred |= turn.unconstrained_fallback_occurred;
    }

    /// When every call has its answer, the answers join the conversation in the model's order.
    fn close_tool_turn(&mut self) {
        let done = |call: &Call| matches!(call.state, CallState::Done { .. });
        if self.calls.is_empty() || !self.calls.iter().all(done) {
            return;
        }
        let verdict = self.guards.verdict(self.plan.loop_detection);
        let skipped = verdict != Verdict::Fine;
        let mut shown = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            shown.extend(self.tool_files.take(&call));
            self.retain(&call);
            if !skipped {
                *self.guards.calls.entry(call.name.clone()).or_default() += 1;
            }
            if let CallState::Done { content, is_error } = call.state {
                self.push(Message::Tool {
                    call_id: call.provider_id,
                    name: call.name,
                    content,
                    is_error,
                });
            }
        }
        // After all answers, because APIs require the answers of a turn to be adjacent.
        shown.into_iter().for_each(|files| self.push(files));
        // The last answer closes the turn before the event that announces the hard cutoff is folded.
        if self.must_finalise() || verdict == Verdict::Stuck {
            self.push(Message::User {
                text: guard::FINALISE.into(),
            });
        } else if skipped {
            self.push(Message::User {
                text: guard::NUDGE.into(),
            });
        }
    }

    fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    pub(super) fn set(&mut self, id: &str, mut state: CallState) {
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id) else {
            return;
        };
        if let (CallState::Done { content, .. }, Some(edit)) = (&mut state, &call.edit) {
            *content = format!("{edit}\n{content}");
        }
        call.state = state;
    }
}

fn pair_ids(requested: Vec<RequestedCall>, provider_ids: Vec<String>) -> Vec<Call> {
    let mut provider_ids = provider_ids.into_iter();
    requested
        .into_iter()
        .map(|call| Call {
            provider_id: provider_ids.next().unwrap_or_else(|| call.id.clone()),
            id: call.id,
            name: call.name,
            input: call.input,
            state: CallState::New,
            edit: None,
        })
        .collect()
}
