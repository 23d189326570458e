//! Delegates: how many start, what runs before and after them, what is refused, what an ended child changes.

use std::sync::Arc;

use runloom_protocol::event::{Event, ToolCall};
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};
use serde_json::{Value, json};

use super::bench::{Bench, calls, plan, says};
use super::facts::facts;
use crate::derived_ids::sub_run_id;
use crate::run::{DelegateCall, Note, Plan, SUB_RUNS_AT_ONCE, Step};
use crate::toolbox::Toolbox;
use runloom_ports::store::{SubRunEnded, SubRunOutcome, TreeUsage};
use runloom_schema::SchemaCache;

/// A plan with a delegate `ask`, a read-only client tool `look` and another one, `send`.
fn with_delegate(change: impl FnOnce(&mut Plan)) -> Arc<Plan> {
    plan(|plan| {
        let tools = json!([
            {"kind": "delegate", "name": "ask", "tools": []},
            {"kind": "local", "name": "look", "readOnly": true},
            {"kind": "local", "name": "send"},
        ]);
        let refs: Vec<_> = serde_json::from_value(tools).unwrap();
        change(plan);
        let toolbox = Toolbox::build(&refs, &SchemaCache::new()).unwrap();
        plan.toolbox = Arc::new(toolbox.for_levels(plan.place.levels));
    })
}

fn ask() -> (&'static str, Value) {
    ("ask", json!({"prompt": "x"}))
}

impl Bench {
    fn start(&mut self, call: &DelegateCall) -> RunId {
        let child = sub_run_id(&self.state.plan.run, &call.id);
        let start = self.state.sub_run_started(call, &child, "platform:bench");
        self.record(Event::ToolCall(ToolCall {
            tool_use_id: call.id.clone(),
            name: "ask".to_owned(),
            input: call.input.clone(),
        }));
        self.record(Event::Subagent(start));
        child
    }

    fn delegated(&mut self) -> Vec<DelegateCall> {
        match self.advance() {
            Step::Delegate(calls) => calls,
            other => panic!("expected delegates, not {other:?}"),
        }
    }

    fn child_ends(&mut self, call: &str, child: &RunId) -> bool {
        let end = SubRunEnded {
            tool_use_id: call.to_owned(),
            run_id: child.clone(),
            outcome: SubRunOutcome::Completed("done".to_owned()),
            model: ModelInfo {
                id: "platform:bench".to_owned(),
                provider: "demo".to_owned(),
                vendor_model_id: "bench".to_owned(),
                reasoning_effort: None,
            },
            usage: TreeUsage {
                runs: 1,
                tokens: Tokens {
                    output_tokens: 7,
                    ..Tokens::default()
                },
                turns: 2,
                cost_pico: Some(5),
                spent_micro: 1,
            },
        };
        let Some(ended) = self.state.sub_run_ended(&end) else {
            return false;
        };
        self.record(Event::Subagent(ended.event));
        self.note(Note::SubRun { usage: end.usage });
        self.record(Event::ToolResult(runloom_protocol::event::ToolResult {
            tool_use_id: call.to_owned(),
            name: ended.name,
            ok: !ended.is_error,
            result: ended.content,
            summary: String::new(),
            metadata: None,
            duration_ms: None,
        }));
        true
    }
}

#[test]
fn at_most_so_many_children_live_at_once() {
    let mut bench = Bench::new(with_delegate(|_| {}));
    bench.turn(calls(&vec![ask(); SUB_RUNS_AT_ONCE + 2]));
    let first = bench.delegated();
    assert_eq!(first.len(), SUB_RUNS_AT_ONCE);
    let children: Vec<RunId> = first.iter().map(|call| bench.start(call)).collect();
    assert_eq!(bench.advance(), Step::AwaitSubRuns);
    assert!(bench.child_ends(&first[0].id, &children[0]));
    assert_eq!(bench.delegated().len(), 1);
    assert_eq!(facts(&bench.folded_with_pending()), facts(&bench.state));
}

#[test]
fn reading_tools_go_before_and_the_others_after() {
    let mut bench = Bench::new(with_delegate(|_| {}));
    bench.turn(calls(&[("send", json!({})), ask(), ("look", json!({}))]));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert!(bench.answer("tu_1_3", "seen"));
    let started = bench.delegated();
    let child = bench.start(&started[0]);
    assert_eq!(bench.advance(), Step::AwaitSubRuns);
    assert!(bench.child_ends("tu_1_2", &child));
    assert!(matches!(bench.advance(), Step::Wait { .. }));
    assert!(bench.answer("tu_1_1", "sent"));
    assert!(matches!(bench.advance(), Step::CallModel(_)));
}

#[test]
fn a_child_ends_once_and_is_part_of_the_sums() {
    let mut bench = Bench::new(with_delegate(|_| {}));
    bench.turn(calls(&[ask()]));
    let started = bench.delegated();
    let child = bench.start(&started[0]);
    assert!(bench.child_ends("tu_1_1", &child));
    assert!(!bench.child_ends("tu_1_1", &child));
    bench.turn(says("done"));
    let Step::Finish(Event::Result(result)) = bench.advance() else {
        panic!("the run has its answer");
    };
    assert_eq!((result.turns, result.tokens.output_tokens), (4, 7));
    assert_eq!(result.subagents.unwrap().turns, 2);
}

#[test]
fn a_root_that_has_its_runs_starts_no_more() {
    let mut bench = Bench::new(with_delegate(|plan| plan.place.max_sub_runs = 1));
    bench.turn(calls(&[ask(), ("ask", json!({"prompt": "y"}))]));
    assert_eq!(bench.delegated().len(), 1);
    let refused = bench.events.iter().any(
        |event| matches!(event, Event::ToolResult(it) if it.result.contains("too_many_sub_runs")),
    );
    assert!(refused);
}

#[test]
fn a_delegate_without_a_level_left_is_hidden_and_refused() {
    let mut bench = Bench::new(with_delegate(|plan| plan.place.levels = 0));
    let shown = bench.state.toolbox.declarations();
    assert!(shown.iter().all(|tool| tool.name != "ask"));
    bench.turn(calls(&[ask()]));
    assert!(matches!(bench.advance(), Step::CallModel(_)));
    let refused = bench
        .events
        .iter()
        .any(|event| matches!(event, Event::ToolResult(it) if it.result.contains("max_depth")));
    assert!(refused);
}

#[test]
fn a_child_has_one_id_for_each_call() {
    let parent = RunId::from_suffix("a");
    assert_eq!(sub_run_id(&parent, "tu_1"), sub_run_id(&parent, "tu_1"));
    assert_ne!(sub_run_id(&parent, "tu_1"), sub_run_id(&parent, "tu_2"));
    let other = RunId::from_suffix("b");
    assert_ne!(sub_run_id(&parent, "tu_1"), sub_run_id(&other, "tu_1"));
}
