//! Delegates: children as runs of their own, sums and budgets over the tree, cancels that go down.

use runloom_ports::store::{Day, DayRange, RunFilter, TreeFilter, UsageGroup};
use runloom_protocol::event::{Event, Subagent, SubagentPhase};
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::AgentSpec;
use serde_json::{Value, json};

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{World, kinds, settings, soon};

/// A delegate without tools.
fn librarian() -> Value {
    json!({"kind": "delegate", "name": "librarian", "tools": [], "instructions": "Find."})
}

fn with(tools: Value) -> impl FnOnce(&mut AgentSpec) {
    move |spec| spec.tools = serde_json::from_value(tools).unwrap()
}

fn call(prompt: &str) -> Piece {
    Piece::Call("librarian", json!({"prompt": prompt}))
}

fn below(events: &[Event]) -> Vec<Subagent> {
    let subagents = events.iter().filter_map(|event| match event {
        Event::Subagent(below) => Some(below.clone()),
        _ => None,
    });
    subagents.collect()
}

fn phases(events: &[Event]) -> Vec<(u32, SubagentPhase)> {
    let found = below(events);
    found
        .iter()
        .map(|below| (below.depth, below.phase))
        .collect()
}

async fn children(world: &World, parent: &str) -> Vec<RunId> {
    let filter = RunFilter {
        tree: TreeFilter::ChildrenOf(RunId::parse(parent).unwrap()),
        ..RunFilter::default()
    };
    let page = runloom_ports::store::Page {
        before: None,
        offset: 0,
        limit: 99,
    };
    let found = world
        .store
        .list_runs(world.caller.workspace.no, &filter, page);
    found.await.unwrap().into_iter().map(|run| run.id).collect()
}

/// The whole log of a run that ends.
async fn ended(world: &World, run: &str) -> Vec<Event> {
    let mut watcher = world.watch(run, 0).await;
    watcher.rest().await;
    watcher.events
}

#[tokio::test]
async fn a_call_is_a_run_of_its_own() {
    let mut one = settings();
    one.max_concurrent = 1;
    let world = World::with(one).await;
    world.model.script([call("find it"), Piece::Usage(100, 10)]);
    world
        .model
        .script([Piece::Text("found"), Piece::Usage(40, 4)]);
    world
        .model
        .script([Piece::Text("done"), Piece::Usage(7, 1)]);
    let run = world.run_with("go", with(json!([librarian()]))).await;
    let events = ended(&world, &run).await;
    let shown: Vec<_> = kinds(&events)
        .into_iter()
        .filter(|kind| !kind.ends_with("_delta"))
        .collect();
    assert_eq!(
        shown,
        [
            "started",
            "assistant_message",
            "tool_call",
            "subagent",
            "subagent",
            "tool_result",
            "assistant_message",
            "result",
        ]
    );
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.final_text.as_deref(), Some("done"));
    assert_eq!(snapshot.tokens.unwrap().input_tokens, 147);
    assert_eq!(snapshot.turns, Some(3));
    let part = snapshot.subagents.unwrap();
    assert_eq!(
        (part.runs, part.turns, part.tokens.output_tokens),
        (1, 1, 4)
    );
    assert!(part.cost_usd.unwrap() < snapshot.cost_usd.unwrap());
    assert_eq!(snapshot.parent_run_id, None);

    let child = children(&world, &run).await;
    let shown = below(&events);
    assert_eq!(shown[0].run_id, child[0]);
    assert_eq!(shown[1].turns, Some(1));
    let child = world.snapshot(child[0].as_str()).await;
    assert_eq!(child.parent_run_id.unwrap().as_str(), run);
    assert_eq!(child.root_run_id.unwrap().as_str(), run);
    assert_eq!((child.depth, child.status), (Some(1), RunStatus::Succeeded));
    assert_eq!(child.agent_spec.name.as_deref(), Some("librarian"));
    let requests = world.model.requests();
    assert_eq!(&*requests[1].system, "Find.");
    assert!(requests[1].tools.is_empty());

    let today = Day::of(world.now());
    let used = world.store.usage(
        world.caller.workspace.no,
        DayRange {
            from: today,
            to: today,
        },
        UsageGroup::Key,
    );
    let used = used.await.unwrap();
    assert_eq!((used[0].runs, used[0].turns), (1, 3));
    assert_eq!(used[0].tokens.input_tokens, 147);
}

#[tokio::test]
async fn calls_of_a_turn_run_together_and_a_failed_child_is_a_result() {
    let world = World::new().await;
    world.model.script([call("a"), call("b")]);
    let mut broken = server_error();
    broken.retryable = false;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("one")]);
    world.model.script([Piece::Refuse(broken)]);
    world.model.script([Piece::Text("done")]);
    let run = world.run_with("go", with(json!([librarian()]))).await;
    soon(world.model.called(3)).await;
    gate.open();
    let events = ended(&world, &run).await;
    let failed = below(&events);
    let failed = failed.iter().find(|it| it.phase == SubagentPhase::Errored);
    assert_eq!(failed.unwrap().error_class.as_deref(), Some("server"));
    let results: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            Event::ToolResult(result) => Some(result.ok),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 2);
    assert!(results.contains(&true) && results.contains(&false));
    assert_eq!(world.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_run_below_a_child_is_seen_at_the_root() {
    let world = World::new().await;
    let outer = json!({"kind": "delegate", "name": "outer", "tools": [librarian()]});
    world.model.script([
        Piece::Call("outer", json!({"prompt": "x"})),
        Piece::Usage(1, 1),
    ]);
    world.model.script([call("deeper"), Piece::Usage(2, 1)]);
    world
        .model
        .script([Piece::Text("deep"), Piece::Usage(4, 1)]);
    world
        .model
        .script([Piece::Text("middle"), Piece::Usage(8, 1)]);
    world
        .model
        .script([Piece::Text("top"), Piece::Usage(16, 1)]);
    let run = world
        .run_with("go", |spec| {
            with(json!([outer]))(spec);
            spec.max_depth = Some(2);
        })
        .await;
    let events = ended(&world, &run).await;
    use SubagentPhase::{Completed, Start};
    assert_eq!(
        phases(&events),
        [(1, Start), (2, Start), (2, Completed), (1, Completed)]
    );
    let shown = below(&events);
    assert_eq!(shown[1].parent_span_id, shown[0].span_id);
    assert_eq!(shown[2].tokens.unwrap().input_tokens, 4);
    assert_eq!(shown[3].tokens.unwrap().input_tokens, 14);
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.tokens.unwrap().input_tokens, 31);
    assert_eq!(snapshot.subagents.unwrap().runs, 2);
}

#[tokio::test]
async fn delegates_without_a_level_left_are_not_shown() {
    let world = World::new().await;
    let outer = json!({"kind": "delegate", "name": "outer", "tools": [librarian()]});
    world
        .model
        .script([Piece::Call("outer", json!({"prompt": "x"}))]);
    world.model.script([call("too deep")]);
    let run = world.run_with("go", with(json!([outer]))).await;
    ended(&world, &run).await;
    let requests = world.model.requests();
    assert_eq!(requests[0].tools.len(), 1);
    assert!(requests[1].tools.is_empty());
    let child = children(&world, &run).await;
    assert!(children(&world, child[0].as_str()).await.is_empty());
    let told = world.events(child[0].as_str()).await;
    let refused = told.iter().any(
        |event| matches!(event, Event::ToolResult(result) if result.result.contains("max_depth")),
    );
    assert!(refused);
}

#[tokio::test]
async fn a_cancel_stops_every_run_below() {
    let world = World::new().await;
    world.model.script([call("long"), Piece::Usage(5, 5)]);
    world.model.script([Piece::Hold(Gate::new())]);
    let run = world.run_with("go", with(json!([librarian()]))).await;
    soon(world.model.called(2)).await;
    world.cancel(&run).await;
    let events = ended(&world, &run).await;
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.status, RunStatus::Cancelled);
    assert_eq!(snapshot.cancel.unwrap().interrupted, ["librarian"]);
    assert_eq!(phases(&events)[1], (1, SubagentPhase::Errored));
    let child = children(&world, &run).await;
    let child = world.snapshot(child[0].as_str()).await;
    assert_eq!(child.cancel.unwrap().reason, "parent_cancelled");
}

#[tokio::test]
async fn a_child_that_is_cancelled_alone_is_a_result() {
    let world = World::new().await;
    world.model.script([call("long")]);
    world.model.script([Piece::Hold(Gate::new())]);
    world.model.script([Piece::Text("went on")]);
    let run = world.run_with("go", with(json!([librarian()]))).await;
    soon(world.model.called(2)).await;
    let child = children(&world, &run).await;
    world.cancel(child[0].as_str()).await;
    let events = ended(&world, &run).await;
    let last = below(&events).pop().unwrap();
    assert_eq!(last.error_class.as_deref(), Some("cancelled"));
    assert_eq!(
        world.snapshot(&run).await.final_text.as_deref(),
        Some("went on")
    );
}

#[tokio::test]
async fn the_time_of_a_run_ends_what_is_below() {
    let world = World::new().await;
    world.model.script([call("long")]);
    world.model.script([Piece::Hold(Gate::new())]);
    let run = world
        .run_with("go", |spec| {
            with(json!([librarian()]))(spec);
            spec.budgets.max_wall_ms = Some(1_500);
        })
        .await;
    soon(world.model.called(2)).await;
    ended(&world, &run).await;
    assert_eq!(world.status(&run).await, RunStatus::Failed);
    let child = children(&world, &run).await;
    let child = world.snapshot(child[0].as_str()).await;
    assert_eq!(child.cancel.unwrap().reason, "parent_ended");
}

#[tokio::test]
async fn another_process_goes_on_with_parent_and_child() {
    let world = World::new().await;
    world.model.script([call("long")]);
    world.model.script([Piece::Hold(Gate::new())]);
    let run = world.run_with("go", with(json!([librarian()]))).await;
    soon(world.model.called(2)).await;
    world.kill().await;
    let peer = world.peer();
    peer.model.script([Piece::Text("again")]);
    peer.model.script([Piece::Text("done")]);
    let events = ended(&peer, &run).await;
    assert_eq!(phases(&events).len(), 2);
    assert_eq!(children(&peer, &run).await.len(), 1);
    assert_eq!(
        peer.snapshot(&run).await.final_text.as_deref(),
        Some("done")
    );
}

#[tokio::test]
async fn the_budget_of_a_run_pays_for_its_children() {
    let world = World::new().await;
    world.model.script([call("costly"), Piece::Bill(10, 10)]);
    world
        .model
        .script([Piece::Text("x"), Piece::Bill(10, 1_000_000)]);
    let cap = 5_000;
    let run = world
        .run_with("go", |spec| {
            with(json!([librarian()]))(spec);
            spec.budgets.max_cost_usd = Some(f64::from(cap) / 1e6);
        })
        .await;
    ended(&world, &run).await;
    let snapshot = world.snapshot(&run).await;
    assert!(
        snapshot.cost_usd.unwrap() <= f64::from(cap) / 1e6,
        "{snapshot:?}"
    );
}

#[tokio::test]
async fn what_a_delegate_names_must_exist() {
    let world = World::new().await;
    let refused = |tools: Value| {
        let mut spec = crate::world::spec();
        with(tools)(&mut spec);
        let request = runloom_protocol::spec::CreateRun {
            spec,
            messages: vec![crate::world::user("go")],
        };
        let (service, caller) = (&world.service, &world.caller);
        async move {
            let created = service.runs().create(caller, request, None).await;
            created.unwrap_err().to_string()
        }
    };
    let model = json!([{"kind": "delegate", "name": "a", "tools": [], "modelId": "nope"}]);
    assert!(refused(model).await.contains("tools[0].modelId"));
    let agent = json!([{"kind": "delegate", "name": "a", "agentId": "agent_1"}]);
    assert!(refused(agent).await.contains("agent_1"));
}
