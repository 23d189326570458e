//! Replay: decides a stored run again with the recorded answers of its model and tools. Nothing is called.
//!
//! The log provides the inputs; the machine computes the decisions, and both must agree: guards, argument checks,
//! calls to clients, the end of the run. Facts that the public log does not show are taken from it without a check:
//! the tools that peers offered, tokens, money and times.

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_protocol::error::Issue;
use runloom_protocol::event::{AssistantMessage, Event, EventKind, Terminal};
use runloom_protocol::id::RunId;
use runloom_protocol::limits;
use runloom_protocol::outcome::{
    EnforcementMechanism, ErrorClass, ModelInfo, StructuredOutput, Tokens,
};
use runloom_protocol::spec::{AgentSpec, Budgets};
use serde_json::Value;

use super::delegation::TreePlace;
use super::equal_events::same;
use super::plan::{ModelFacts, Plan, default_tool_budgets};
use super::record::{Note, Record};
use super::state::RunState;
use super::step::{CallPlan, Step, next};
use crate::policy::compile_all;
use crate::toolbox::{Toolbox, any_object};
use runloom_ports::conversation::Conversation;
use runloom_ports::effect::Effect;
use runloom_ports::model::{Capabilities, StructuredSupport};
use runloom_ports::tools::ServerTool;
use runloom_schema::SchemaCache;

/// Result of a replay without a divergence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events of the log.
    pub events: u64,
    /// Number of these that the machine decided by itself, with the same result.
    pub decided: u64,
}

/// The first difference between the log and the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// Number of the event.
    pub seq: u64,
    /// The recorded event; `None` when the log ends before.
    pub recorded: Option<Box<Event>>,
    /// The decision of this version.
    pub expected: String,
}

/// The plan of a run from its public spec.
///
/// # Errors
/// If this version cannot use a schema of the spec.
pub fn recorded_plan(
    run: RunId,
    spec: &AgentSpec,
    events: &[Event],
    max_tool_turns: u32,
) -> Result<Plan, Vec<Issue>> {
    let schemas = Arc::new(SchemaCache::new());
    let place = recorded_place(spec);
    let toolbox = Toolbox::build(&spec.tools, &schemas)?.for_levels(place.levels);
    let output = match &spec.output_schema {
        None => None,
        Some(output) => {
            let schema = Value::Object(output.schema.clone());
            let validator = schemas.compile(&schema).map_err(|error| {
                let path = format!("outputSchema.schema{}", error.path);
                vec![Issue {
                    path,
                    message: error.message,
                }]
            })?;
            Some((Arc::new(output.clone()), validator))
        }
    };
    Ok(Plan {
        run,
        system: "".into(),
        history_len: 0,
        compaction: None,
        opening: Conversation::default(),
        toolbox: Arc::new(toolbox),
        has_server_tools: spec.tools.iter().any(|tool| tool.is_server_resolved()),
        schemas: Arc::clone(&schemas),
        reasoning_level: spec.reasoning_level,
        output,
        primary: model_facts(nobody(), events),
        fallback: events
            .iter()
            .find_map(fallback_model)
            .map(|model| model_facts(model.clone(), events)),
        has_monthly_budgets: false,
        max_tool_turns: spec.budgets.max_tool_turns.unwrap_or(max_tool_turns),
        loop_detection: spec.loop_detection.unwrap_or_default(),
        tool_budgets: default_tool_budgets(spec.tool_budgets.as_ref()),
        policies: compile_all(spec.policies(), &schemas)?,
        has_call_policy: false,
        // Tokens and money of single turns are not public.
        budgets: Budgets::default(),
        client_timeout_ms: None,
        place,
    })
}

/// The recorded position of a run in its tree. A child's spec has the number of levels left.
fn recorded_place(spec: &AgentSpec) -> TreePlace {
    TreePlace {
        depth: 0,
        levels: spec.max_depth.unwrap_or(limits::MAX_DEPTH_DEFAULT),
        known_below: 0,
        // How many runs other branches had is not public.
        max_sub_runs: u32::MAX,
    }
}

/// A model of which the log shows little.
fn model_facts(model: ModelInfo, events: &[Event]) -> ModelFacts {
    ModelFacts {
        model,
        capabilities: Capabilities {
            reasoning: true,
            structured: structured_support(events),
            ..Capabilities::default()
        },
        price: None,
        context_window: None,
        max_output_tokens: None,
    }
}

fn fallback_model(event: &Event) -> Option<&ModelInfo> {
    if let Event::ModelFallback(fallback) = event {
        return Some(&fallback.model);
    }
    None
}

fn nobody() -> ModelInfo {
    ModelInfo {
        id: String::new(),
        provider: String::new(),
        vendor_model_id: String::new(),
        reasoning_effort: None,
    }
}

/// The support of the model for output schemas, which the log shows only if the run failed for lack of it.
fn structured_support(events: &[Event]) -> StructuredSupport {
    if let Some(Event::Error(error)) = events.last()
        && error.error_class == ErrorClass::StructuredOutputNotSupported
    {
        return StructuredSupport::None;
    }
    StructuredSupport::SyntheticTool
}

/// Replays a run.
///
/// # Errors
/// The first difference between the log and the machine.
pub fn replay(plan: Arc<Plan>, events: &[Event]) -> Result<Replayed, Divergence> {
    let mut replay = Replay {
        state: RunState::new(plan),
        events,
        at: 0,
        decided: 0,
    };
    while replay.step()? {}
    Ok(Replayed {
        events: replay.at as u64,
        decided: replay.decided,
    })
}

struct Replay<'a> {
    state: RunState,
    events: &'a [Event],
    at: usize,
    decided: u64,
}

impl<'a> Replay<'a> {
    /// Performs one step of the machine; false at the end.
    fn step(&mut self) -> Result<bool, Divergence> {
        let step = next(&self.state);
        // The time of a cancel, of the run's deadline or of a decision is not decided by the machine.
        if let Some(event) = self.ahead()
            && (from_outside(event, &step)
                || self.is_decision(event)
                || event.kind() == EventKind::ContextCompacted)
            && self.state.started
        {
            self.take(event);
            return Ok(true);
        }
        match step {
            Step::Over => match self.ahead() {
                None => return Ok(false),
                Some(_) => return Err(self.differs("nothing: the run is over".to_owned())),
            },
            Step::Write(expected) => {
                // A server tool's own check may have refused a call that its stand-in accepts.
                let is_next = |event: &Event| self.ahead().is_some_and(|next| same(event, next));
                if expected.first().is_some_and(is_next) || !self.server_refused() {
                    for event in &expected {
                        self.decide(event)?;
                    }
                }
            }
            Step::Ask(calls) => {
                if !self.server_went_first() {
                    for call in calls {
                        let deadline = i64::MAX;
                        let tool_use_id = call.tool_use_id.clone();
                        self.decide(&Event::LocalToolCall(call))?;
                        self.state.apply(Record::Note(Note::Asked {
                            tool_use_id,
                            deadline,
                        }));
                    }
                }
            }
            Step::RequestApprovals(asks) => {
                for ask in asks {
                    self.decide(&Event::ApprovalRequested(ask.request))?;
                }
            }
            Step::ResolveTools => {
                let tools = stand_ins(self.events, &self.state);
                self.state.apply(Record::Note(Note::Toolset { tools }));
            }
            Step::Execute(calls) => {
                if !self.server_went_first() {
                    let names: Vec<&str> =
                        calls.iter().map(|call| call.tool.name.as_str()).collect();
                    return Err(self.differs(format!("to execute {}", names.join(", "))));
                }
            }
            Step::Delegate(calls) => {
                if !self.server_went_first() {
                    let calls = calls.iter();
                    let names: Vec<&str> = calls.map(|it| it.delegate.name.as_str()).collect();
                    return Err(self.differs(format!("to delegate to {}", names.join(", "))));
                }
            }
            Step::AwaitSubRuns => {
                if !self.server_went_first() {
                    return Err(self.differs("the end of a child".to_owned()));
                }
            }
            Step::Judge(_) => return Err(self.differs("a judgement".to_owned())),
            // A recorded plan has no compaction.
            Step::Compact(_) => return Err(self.differs("to summarise older turns".to_owned())),
            Step::Wait { .. } => self.wait()?,
            Step::CallModel(plan) => self.turn(&plan)?,
            Step::Economise(reason) => self.state.apply(Record::Note(Note::Economise { reason })),
            Step::Finish(event) => self.decide(&event)?,
        }
        Ok(true)
    }

    /// Whether the event is a decision about a waiting call, or forwards an approval of a run below.
    fn is_decision(&self, event: &Event) -> bool {
        if let Event::ApprovalDecided(decided) = event {
            let waits = |call: &super::Call| matches!(&call.state, super::CallState::Pending { approval, .. } if *approval == decided.approval_id);
            decided.run_id != self.state.plan.run || self.state.calls.iter().any(waits)
        } else if let Event::ApprovalRequested(request) = event {
            request.run_id != self.state.plan.run
        } else {
            false
        }
    }

    fn ahead(&self) -> Option<&'a Event> {
        self.events.get(self.at)
    }

    fn take(&mut self, event: &Event) {
        self.at += 1;
        self.state.apply(Record::Event(event.clone()));
    }

    /// Compares the event that the machine decided with the next one of the log.
    fn decide(&mut self, expected: &Event) -> Result<(), Divergence> {
        match self.ahead() {
            Some(event) if same(expected, event) => {
                self.decided += 1;
                self.take(event);
                Ok(())
            }
            _ => {
                let words = serde_json::to_string(expected).unwrap_or_default();
                Err(self.differs(words))
            }
        }
    }

    fn differs(&self, expected: String) -> Divergence {
        Divergence {
            seq: self.at as u64 + 1,
            recorded: self.ahead().cloned().map(Box::new),
            expected,
        }
    }

    /// Takes the log's calls of server tools: the public log shows neither their order nor the checks of their peers.
    fn server_went_first(&mut self) -> bool {
        let ahead = self.ahead();
        if let Some(event @ (Event::ToolFiles(_) | Event::Subagent(_))) = ahead {
            self.take(event);
            return true;
        }
        let (id, name) = if let Some(Event::ToolCall(call)) = ahead {
            (&call.tool_use_id, &call.name)
        } else if let Some(Event::ToolResult(result)) = ahead {
            (&result.tool_use_id, &result.name)
        } else {
            return false;
        };
        let is_open = |call: &super::Call| {
            let done = matches!(call.state, super::CallState::Done { .. });
            call.id == *id && call.name == *name && !done
        };
        let is_servers = self
            .state
            .toolbox
            .get(name)
            .is_some_and(|tool| !tool.is_client());
        if is_servers
            && self.state.calls.iter().any(is_open)
            && let Some(event) = ahead
        {
            self.take(event);
            return true;
        }
        false
    }

    /// Takes the refusal of a call to a server tool, if the log has one next.
    fn server_refused(&mut self) -> bool {
        matches!(self.ahead(), Some(Event::ToolResult(result)) if !result.ok)
            && self.server_went_first()
    }

    fn wait(&mut self) -> Result<(), Divergence> {
        if let Some(event @ Event::LocalToolResultIn(result)) = self.ahead() {
            let asked = |call: &super::Call| {
                let waits = matches!(call.state, super::CallState::Asked { .. });
                call.id == result.tool_use_id && waits
            };
            if self.state.calls.iter().any(asked) {
                self.take(event);
                return Ok(());
            }
        } else if self.server_went_first() {
            return Ok(());
        }
        Err(self.differs("the answer of a client, or a person's decision".to_owned()))
    }

    fn turn(&mut self, plan: &CallPlan) -> Result<(), Divergence> {
        let begin = self.at;
        // The machine would take deltas without an end for a broken attempt, so they are taken with the end of their
        // turn.
        while let Some(event @ (Event::AssistantDelta(_) | Event::ThinkingDelta(_))) = self.ahead()
        {
            self.take(event);
        }
        let has_deltas = self.at > begin;
        if let Some(event @ Event::AssistantMessage(message)) = self.ahead() {
            return self.spoke(event, message, plan);
        }
        // The provider failed.
        if let Some(event @ Event::Error(_)) = self.ahead() {
            self.take(event);
        } else if has_deltas {
            return Ok(());
        } else if let Some(event @ Event::ModelFallback(_)) = self.ahead() {
            self.take(event);
        } else {
            return Err(self.differs("to call the model".to_owned()));
        }
        Ok(())
    }

    /// Whether no other turn began after the last one.
    fn ends_here(&self) -> bool {
        match self.ahead() {
            None => true,
            // The turn that failed is counted.
            Some(Event::Error(error)) => error.turns <= self.state.turns.saturating_add(1),
            Some(event) => event.is_terminal(),
        }
    }

    fn spoke(
        &mut self,
        event: &Event,
        message: &AssistantMessage,
        plan: &CallPlan,
    ) -> Result<(), Divergence> {
        if !plan.tools_enabled && !message.tool_calls.is_empty() {
            return Err(self.differs(
                "a turn without tools (if the server's runs.max_tool_turns is not the one given here, say so)"
                    .to_owned(),
            ));
        }
        self.take(event);
        let ended = self.ends_here();
        let ids = message.tool_calls.iter().map(|call| call.id.clone());
        let output = self.state.plan.output.is_some();
        self.state.apply(Record::Note(Note::Turn {
            tokens: Tokens::default(),
            call_ids: ids.collect(),
            state: None,
            structured: StructuredOutput {
                schema_requested: output,
                // Otherwise the hidden tool was forced in another turn, or that turn failed.
                schema_enforced: output && ended,
                enforcement_mechanism: EnforcementMechanism::None,
                unconstrained_fallback_occurred: false,
            },
        }));
        Ok(())
    }
}

/// Events that depend on a clock, a monthly budget, a person or the processes that had the run.
fn from_outside(event: &Event, step: &Step) -> bool {
    let is_decided = matches!(step, Step::Finish(_) | Step::Over);
    match event.terminal() {
        Some(Terminal::Cancelled(_)) => *step != Step::Over,
        Some(Terminal::Error(error)) => match error.error_class {
            ErrorClass::LocalTimeout | ErrorClass::BudgetExceeded => *step != Step::Over,
            ErrorClass::Server => !is_decided,
            _ => false,
        },
        Some(Terminal::Result(_)) | None => false,
    }
}

fn called_tool(event: &Event) -> Option<&str> {
    if let Event::ToolCall(call) = event {
        return Some(&call.name);
    }
    None
}

/// Tools for the names that the log shows as executed by the server. Their effect allows a repeated call.
fn stand_ins(events: &[Event], state: &RunState) -> Vec<ServerTool> {
    let names: BTreeSet<&str> = events
        .iter()
        .filter_map(called_tool)
        .filter(|name| state.toolbox.get(name).is_none())
        .collect();
    let tool = |name: &str| ServerTool {
        action_effects: None,
        name: name.to_owned(),
        description: String::new(),
        parameters: any_object(),
        output_schema: None,
        effect: Effect::Idempotent,
        annotations: None,
        policy: None,
        from: 0,
        target: Value::Null,
    };
    names.into_iter().map(tool).collect()
}
