//! Random interleavings: a random model, clients that answer in any order, late or twice, time that passes, cancels,
//! and
//! processes that die. Whatever happens, the log stays legal and folds to the same state everywhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use runloom_protocol::approval::{ApprovalVerdict, Ruling};
use runloom_protocol::attachment::Attachment;
use runloom_protocol::event::{Event, Started, parse_frame, split_frames};
use runloom_protocol::outcome::{
    EnforcementMechanism, ErrorClass, RunCancelled, StructuredOutput, Tokens, finish_reason,
};
use runloom_protocol::spec::{Enforcement, LoopDetection, OutputSchema};
use serde_json::{Value, json};

use super::approvals::compiled;
use super::bench::{Bench, TIMEOUT, Turn, approve, deny, model_facts, plan, says};
use super::facts::facts;
use crate::run::{Note, Plan, Spent, Step, cancelled, failed, replay};
use runloom_ports::model::{Message, ModelError, StructuredSupport};
use runloom_schema::SchemaCache;

/// One thing that the world does.
#[derive(Debug, Clone)]
enum Action {
    /// The model answers in this number of pieces; most of them begin with a delta.
    Turn(Turn, usize),
    /// The model shows something and breaks off with its process.
    Break,
    /// A client answers one of all calls there ever were.
    Answer(prop::sample::Index),
    /// A person decides about one of all calls there ever were: approves it, approves it with other arguments, or
    /// denies it.
    Decide(prop::sample::Index, Ruling),
    /// Time passes.
    Pass(i64),
    /// What happened so far becomes durable.
    Flush,
    /// The process dies; what was not durable never happened.
    Crash,
    /// The model is called in vain, until nobody tries again.
    Outage(ErrorClass),
    /// Somebody cancels.
    Cancel,
}

fn turns() -> impl Strategy<Value = Turn> {
    let tool = prop::sample::select(vec!["look", "find", "send", "typed", "fly"]);
    let input = prop::sample::select(vec![json!({}), json!({"n": 1}), json!({"n": "x"})]);
    let calls = prop::collection::vec((tool, input), 0..4);
    let finish = prop::sample::select(vec![
        finish_reason::END_TURN,
        finish_reason::END_TURN,
        finish_reason::END_TURN,
        finish_reason::MAX_TOKENS,
        finish_reason::REFUSAL,
        finish_reason::MALFORMED_FUNCTION_CALL,
        finish_reason::CONTENT_FILTER,
    ]);
    let text = prop::sample::select(vec!["", "words", r#"{"n":1}"#]);
    (calls, finish, text, any::<bool>(), 0..50_u64).prop_map(
        |(calls, finish, text, enforced, output_tokens)| {
            let own = |(name, input): (&str, Value)| (name.to_owned(), input);
            let calls: Vec<_> = calls.into_iter().map(own).collect();
            let finish = if calls.is_empty() {
                finish
            } else {
                finish_reason::TOOL_USE
            };
            let tokens = Tokens {
                output_tokens,
                ..Tokens::default()
            };
            let structured = StructuredOutput {
                schema_requested: true,
                schema_enforced: enforced,
                enforcement_mechanism: EnforcementMechanism::None,
                unconstrained_fallback_occurred: false,
            };
            Turn {
                calls,
                tokens,
                structured,
                ..says(text).ends(finish)
            }
        },
    )
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (turns(), 0..3_usize).prop_map(|(turn, pieces)| Action::Turn(turn, pieces)),
        1 => Just(Action::Break),
        10 => any::<prop::sample::Index>().prop_map(Action::Answer),
        6 => (any::<prop::sample::Index>(), rulings()).prop_map(|(call, ruling)| Action::Decide(call, ruling)),
        2 => (0..TIMEOUT).prop_map(Action::Pass),
        2 => Just(Action::Flush),
        2 => Just(Action::Crash),
        1 => prop::sample::select(vec![ErrorClass::Overloaded, ErrorClass::Timeout]).prop_map(Action::Outage),
        1 => prop::bool::weighted(0.1).prop_map(|cancel| if cancel { Action::Cancel } else { Action::Flush }),
    ]
}

fn rulings() -> impl Strategy<Value = Ruling> {
    prop::sample::select(vec![
        approve(None),
        approve(Some(json!({"n": 7}))),
        deny("no"),
    ])
}

fn policies() -> impl Strategy<Value = Option<Value>> {
    prop::sample::select(vec![
        None,
        Some(json!({"default": "ask"})),
        Some(
            json!({"rules": [{"tools": ["send"], "decision": "ask"}, {"tools": ["find"], "decision": "deny"}]}),
        ),
        Some(json!({"rules": [{"effects": ["read"], "decision": "allow"}], "default": "ask"})),
    ])
}

fn plans() -> impl Strategy<Value = Arc<Plan>> {
    let loops = prop::sample::select(vec![
        LoopDetection::Off,
        LoopDetection::On {
            consecutive: 2,
            hard: 3,
        },
        LoopDetection::On {
            consecutive: 3,
            hard: 6,
        },
    ]);
    let support = prop::sample::select(vec![
        StructuredSupport::Native,
        StructuredSupport::SyntheticTool,
        StructuredSupport::None,
    ]);
    let spare = prop::option::weighted(0.7, support.clone());
    let parts = (loops, (support, spare), any::<(bool, bool)>());
    let parts = (parts, policies(), 1..6_u32, 0..3_u32);
    parts.prop_map(
        |((loops, (support, spare), (schema, strict)), policy, tool_turns, budget)| {
            plan(|plan| {
                plan.fallback = spare.map(|support| {
                    let mut spare = model_facts("spare");
                    spare.capabilities.structured = support;
                    spare
                });
                plan.policies = policy.into_iter().map(compiled).collect();
                plan.loop_detection = loops;
                plan.max_tool_turns = tool_turns;
                plan.tool_budgets =
                    Arc::new([("look".to_owned(), budget), ("send".to_owned(), 2)].into());
                plan.budgets.max_output_tokens = Some(400);
                plan.primary.capabilities.structured = support;
                plan.output = schema.then(|| output(strict));
            })
        },
    )
}

fn output(strict: bool) -> (Arc<OutputSchema>, runloom_schema::Validator) {
    let schema = json!({"type": "object", "required": ["n"]});
    let validator = SchemaCache::new().compile(&schema).unwrap();
    let Value::Object(schema) = schema else {
        panic!("an object");
    };
    let enforcement = if strict {
        Enforcement::Strict
    } else {
        Enforcement::BestEffort
    };
    let name = "output".to_owned();
    let output = OutputSchema {
        name,
        schema,
        enforcement,
    };
    (Arc::new(output), validator)
}

/// Does one thing; false when the run is over.
fn perform(bench: &mut Bench, action: Action) -> bool {
    let step = bench.advance();
    if let Step::CallModel(_) = step {
        assert_legal_conversation(bench.state.messages.iter());
        assert_all_answered(&bench.events);
    }
    match (step, action) {
        (Step::Finish(event), _) => {
            bench.record(event);
            return false;
        }
        (Step::Over, _) => panic!("over without having ended here"),
        (_, Action::Cancel) => {
            cancel(bench);
            return false;
        }
        (Step::CallModel(plan), Action::Turn(mut turn, pieces)) => {
            if !plan.tools_enabled {
                turn.calls.clear();
            }
            (0..pieces).for_each(|_| bench.delta("piece"));
            bench.complete(plan, turn);
        }
        (Step::CallModel(_), Action::Outage(class)) => {
            if !bench.fails(class) {
                let error = ModelError::new(class, "out of service");
                // As the driver counts: the failing turn is one.
                let spent = Spent {
                    turns: 1,
                    ..Spent::default()
                };
                let event = failed(&bench.state, &error, &spent);
                bench.record(event);
                return false;
            }
        }
        (Step::CallModel(_), Action::Break) => {
            bench.delta("piece");
            bench.flush();
            bench.crash();
        }
        (_, Action::Answer(index)) => {
            let ids = all_ids(&bench.events);
            if !ids.is_empty() {
                let id = ids[index.index(ids.len())].clone();
                if id.ends_with('1') && bench.asked().contains(&id) {
                    let files = vec![Attachment::inline("a.png", "image/png", "QUJD")];
                    let tool_use_id = id.clone();
                    bench.note(Note::Files { tool_use_id, files });
                }
                bench.answer(&id, "answer");
            }
        }
        (_, Action::Decide(index, ruling)) => {
            let ids = all_ids(&bench.events);
            if !ids.is_empty() {
                bench.decide(&ids[index.index(ids.len())], &ruling);
            }
        }
        (_, Action::Pass(time)) => {
            bench.expire_at(bench.now + time);
        }
        (_, Action::Flush) => bench.flush(),
        (_, Action::Crash) => bench.crash(),
        (_, Action::Turn(..) | Action::Break | Action::Outage(_)) => {}
    }
    true
}

fn cancel(bench: &mut Bench) {
    if !bench.state.started {
        bench.record(Event::Started(Started {}));
    }
    let receipt = RunCancelled {
        subagents: None,
        reason: "user".to_owned(),
        requested_at: None,
        stopped_at: None,
        interrupted: Vec::new(),
        tokens: Tokens::default(),
        turns: 0,
        model: None,
        cost_usd: None,
    };
    let event = cancelled(&bench.state, receipt, &Spent::default());
    bench.record(event);
}

/// The world behaves from now on: the run must come to its end in a bounded number of steps.
fn bring_to_an_end(bench: &mut Bench) {
    for _ in 0..64 {
        match bench.answer_all() {
            Step::CallModel(plan) => bench.complete(plan, says(r#"{"n":1}"#)),
            Step::Finish(event) => return bench.record(event),
            other => panic!("unexpected {other:?}"),
        }
    }
    panic!("the run does not end");
}

fn all_ids(events: &[Event]) -> Vec<String> {
    let calls = events.iter().filter_map(|event| match event {
        Event::AssistantMessage(message) => Some(&message.tool_calls),
        _ => None,
    });
    calls.flatten().map(|call| call.id.clone()).collect()
}

/// Every call has exactly one outcome, and every outcome a call.
fn assert_all_answered(events: &[Event]) {
    let mut outcomes: HashMap<&str, u32> = HashMap::new();
    for event in events {
        match event {
            Event::ToolResult(result) => *outcomes.entry(&result.tool_use_id).or_default() += 1,
            Event::LocalToolResultIn(result) => {
                *outcomes.entry(&result.tool_use_id).or_default() += 1;
            }
            _ => {}
        }
    }
    let ids = all_ids(events);
    for id in &ids {
        assert_eq!(outcomes.get(id.as_str()), Some(&1), "outcomes of {id}");
    }
    assert_eq!(outcomes.len(), ids.len());
}

/// Every call of the model is followed by its results, in order, before anything else is said.
pub(super) fn assert_legal_conversation<'a>(messages: impl Iterator<Item = &'a Message>) {
    let mut owed: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { call_id, .. } => {
                assert_eq!(
                    owed.first(),
                    Some(&call_id.as_str()),
                    "a result out of turn"
                );
                owed.remove(0);
            }
            other => {
                assert!(owed.is_empty(), "{owed:?} unanswered before {other:?}");
                if let Message::Assistant { calls, .. } = other {
                    owed = calls.iter().map(|call| call.id.as_str()).collect();
                }
            }
        }
    }
    assert!(owed.is_empty(), "{owed:?} unanswered at the end");
}

/// The log as stored: gapless, `started` first, one terminal last, no call published twice.
fn assert_legal_log(bench: &Bench) {
    let mut published = HashSet::new();
    let mut seq = 0;
    let mut terminals = 0;
    for entry in &bench.log {
        assert_eq!(entry.chunk.first_seq, seq + 1);
        for frame in split_frames(&entry.chunk.frames) {
            let stored = parse_frame(frame).expect("data").expect("an event");
            seq += 1;
            assert_eq!(stored.seq, seq);
            assert_eq!(
                stored.event,
                bench.events[usize::try_from(seq).unwrap() - 1]
            );
            assert_eq!(matches!(stored.event, Event::Started(_)), seq == 1);
            assert_eq!(terminals, 0, "something follows the end");
            terminals += u32::from(stored.event.is_terminal());
            if let Event::LocalToolCall(call) = stored.event {
                assert!(published.insert(call.tool_use_id), "published twice");
            }
        }
        assert_eq!(entry.chunk.last_seq, seq);
    }
    assert_eq!(terminals, 1);
    assert_eq!(seq, bench.events.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_log_stays_legal(
        plan in plans(),
        script in prop::collection::vec(actions(), 0..80),
    ) {
        let mut bench = Bench::new(plan);
        let mut over = false;
        for action in script {
            over = !perform(&mut bench, action);
            prop_assert_eq!(facts(&bench.folded_with_pending()), facts(&bench.state));
            if over {
                break;
            }
        }
        if !over {
            bring_to_an_end(&mut bench);
        }
        bench.flush();
        prop_assert_eq!(facts(&bench.folded()), facts(&bench.state));
        prop_assert!(bench.state.ended);
        assert_legal_log(&bench);
        assert_one_voice_at_a_time(&bench);
        assert_decided_before_executed(&bench.events);
        assert_legal_conversation_prefix(&bench);
        let replayed = replay(Arc::clone(&bench.state.plan), &bench.events);
        prop_assert!(replayed.is_ok(), "{:#?}\n{:#?}", replayed, bench.events);
    }
}

/// The first model speaks until the log says that it gave way, and the other one from then on, to the end.
fn assert_one_voice_at_a_time(bench: &Bench) {
    let mut voice = "platform:bench";
    for event in &bench.events {
        match event {
            Event::ModelFallback(moved) => {
                assert_eq!(
                    (voice, moved.primary_model_id.as_str()),
                    ("platform:bench", voice)
                );
                voice = "platform:spare";
            }
            Event::AssistantMessage(message) => assert_eq!(message.model.as_deref(), Some(voice)),
            Event::Result(result) => assert_eq!(result.model.id, voice),
            Event::Error(error) => assert_eq!(error.model.id, voice),
            _ => {}
        }
    }
}

/// No call is published to a client while an approval is undecided, and none that a person denied ever is. Each
/// approval is asked and
/// decided at most once.
fn assert_decided_before_executed(events: &[Event]) {
    let (mut asked, mut open, mut denied) = (HashSet::new(), HashSet::new(), HashSet::new());
    for event in events {
        match event {
            Event::ApprovalRequested(request) => {
                assert!(asked.insert(&request.tool_use_id), "asked twice");
                open.insert(&request.tool_use_id);
            }
            Event::ApprovalDecided(decided) => {
                assert!(open.remove(&decided.tool_use_id), "decided twice");
                if decided.decision == ApprovalVerdict::Deny {
                    denied.insert(&decided.tool_use_id);
                }
            }
            Event::LocalToolCall(call) => {
                assert!(open.is_empty(), "{open:?} undecided");
                assert!(
                    !denied.contains(&call.tool_use_id),
                    "executed although denied"
                );
            }
            _ => {}
        }
    }
}

/// A run that was cut off may owe results; what is complete is legal all the same.
fn assert_legal_conversation_prefix(bench: &Bench) {
    if bench.state.calls.is_empty() {
        assert_legal_conversation(bench.state.messages.iter());
        assert_all_answered(&bench.events);
    }
}
