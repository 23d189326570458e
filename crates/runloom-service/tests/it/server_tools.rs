//! Tools that the server executes: resolving, executing, cancelling, stopping.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runloom_ports::effect::Effect;
use runloom_ports::error::Result;
use runloom_ports::tools::{
    FetchedFile, Invocation, NoTools, Outcome, ServerTool, ToolContext, ToolHost,
};
use runloom_protocol::event::Event;
use runloom_protocol::resource::{InstalledPlugin, RunStatus, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::scripted::{Gate, Piece};
use crate::world::{World, kinds, settings, soon};

/// A host with one tool, `docs_write`, that must not be repeated.
struct Host {
    resolving: Gate,
    calling: Gate,
    resolved: watch::Sender<usize>,
    calls: watch::Sender<usize>,
}

impl Host {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            resolving: Gate::new(),
            calling: Gate::new(),
            resolved: watch::Sender::new(0),
            calls: watch::Sender::new(0),
        })
    }
}

async fn reached(count: &watch::Sender<usize>, times: usize) {
    let mut count = count.subscribe();
    soon(count.wait_for(|count| *count >= times)).await.unwrap();
}

#[async_trait]
impl ToolHost for Host {
    async fn check(&self, _workspace: &str, _refs: &[ToolRef]) -> Result<()> {
        Ok(())
    }

    async fn resolve(&self, _context: &ToolContext, _refs: &[ToolRef]) -> Vec<ServerTool> {
        self.resolved.send_modify(|count| *count += 1);
        self.resolving.pass().await;
        vec![ServerTool {
            action_effects: None,
            name: "docs_write".to_owned(),
            description: "Writes.".to_owned(),
            parameters: json!({"type": "object"}),
            output_schema: None,
            effect: Effect::Once,
            annotations: None,
            policy: None,
            from: 0,
            target: Value::Null,
        }]
    }

    async fn call(
        &self,
        _context: &ToolContext,
        _tool: &ServerTool,
        _call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        self.calls.send_modify(|count| *count += 1);
        cancel.run_until_cancelled(self.calling.pass()).await;
        Outcome {
            content: "written".to_owned(),
            ..Outcome::default()
        }
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        NoTools.installed(workspace).await
    }
    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>> {
        NoTools.toolset_tools(workspace, name).await
    }
    fn check_address(&self, url: &str) -> std::result::Result<(), String> {
        NoTools.check_address(url)
    }
    async fn fetch(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        NoTools.fetch(url, max_bytes, timeout).await
    }
}

async fn world(host: &Arc<Host>) -> World {
    World::with_tools(settings(), Arc::clone(host) as _).await
}

async fn run(world: &World) -> String {
    let docs = json!([{"kind": "mcp", "name": "docs", "url": "http://127.0.0.1:9/mcp"}]);
    let tools: Vec<ToolRef> = serde_json::from_value(docs).unwrap();
    world.run_with("write", |spec| spec.tools = tools).await
}

fn write() -> Vec<Piece> {
    vec![Piece::Text("a"), Piece::Call("docs_write", json!({}))]
}

#[tokio::test]
async fn a_server_tool_is_announced_executed_and_answered() {
    let host = Host::new();
    let world = world(&host).await;
    world.model.script(write());
    let run = run(&world).await;
    let mut watcher = world.watch(&run, 0).await;
    host.resolving.open();
    watcher.until("tool_call").await;
    reached(&host.calls, 1).await;
    host.calling.open();
    watcher.rest().await;
    assert!(watcher.kinds().contains(&"tool_result"));
    assert!(matches!(watcher.events.last(), Some(Event::Result(result)) if result.turns == 2));
    let tools = &world.model.requests()[0].tools;
    assert_eq!(tools[0].name, "docs_write");
    world.stop().await;
}

/// A run with a tool of the workspace.
async fn run_at_hand(world: &World) -> String {
    let docs = json!([{"kind": "mantyx", "id": "docs_write"}]);
    let tools: Vec<ToolRef> = serde_json::from_value(docs).unwrap();
    world.run_with("write", |spec| spec.tools = tools).await
}

#[tokio::test]
async fn workspace_tools_that_are_at_hand_are_looked_up_once_and_offered_in_the_first_call() {
    let host = Host::new();
    let world = world(&host).await;
    world.model.script(write());
    host.resolving.open();
    host.calling.open();
    let run = run_at_hand(&world).await;
    let events = world.events(&run).await;
    assert!(kinds(&events).contains(&"tool_result"));
    assert_eq!(*host.resolved.borrow(), 1);
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "no call was made twice");
    for request in requests {
        assert_eq!(request.tools[0].name, "docs_write");
    }
    world.stop().await;
}

#[tokio::test]
async fn workspace_tools_that_must_be_waited_for_are_waited_for() {
    let host = Host::new();
    let world = world(&host).await;
    let run = run_at_hand(&world).await;
    reached(&host.resolved, 1).await;
    assert_eq!(world.model.calls(), 0);
    host.resolving.open();
    assert_eq!(
        kinds(&world.events(&run).await).last(),
        Some(&"result"),
        "the run goes on with its tools"
    );
    assert_eq!(world.model.requests()[0].tools[0].name, "docs_write");
    world.stop().await;
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_peers_that_are_asked_for_their_tools() {
    let host = Host::new();
    let world = world(&host).await;
    let run = run(&world).await;
    reached(&host.resolved, 1).await;
    world.cancel(&run).await;
    assert_eq!(kinds(&world.events(&run).await), ["started", "cancelled"]);
    assert_eq!(world.model.calls(), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_cancel_interrupts_a_tool_and_names_it() {
    let host = Host::new();
    let world = world(&host).await;
    world.model.script(write());
    host.resolving.open();
    let run = run(&world).await;
    reached(&host.calls, 1).await;
    world.cancel(&run).await;
    let events = world.events(&run).await;
    let Some(Event::Cancelled(receipt)) = events.last() else {
        panic!("not cancelled: {:?}", kinds(&events));
    };
    assert_eq!(receipt.interrupted, ["docs_write"]);
    assert_eq!(world.status(&run).await, RunStatus::Cancelled);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_leaves_a_tool_to_the_next_one() {
    let host = Host::new();
    let world = world(&host).await;
    let gate = Gate::new();
    let held = [Piece::Text("a"), Piece::Hold(gate.clone())].into_iter();
    world.model.script(held.chain(write()).collect::<Vec<_>>());
    host.resolving.open();
    host.calling.open();
    let run = run(&world).await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.tasks.shutdown.drain();
    gate.open();
    world.stop().await;
    assert_eq!(*host.calls.borrow(), 0, "nothing is begun while stopping");
    let next = world.peer();
    let events = next.events(&run).await;
    assert!(
        matches!(events.last(), Some(Event::Result(_))),
        "{:?}",
        kinds(&events)
    );
    assert_eq!(*host.calls.borrow(), 1);
    assert_eq!(*host.resolved.borrow(), 1, "a run keeps its tools");
    next.stop().await;
}

#[tokio::test]
async fn a_tool_that_must_not_be_repeated_is_not() {
    let host = Host::new();
    let world = world(&host).await;
    world.model.script(write());
    host.resolving.open();
    let run = run(&world).await;
    reached(&host.calls, 1).await;
    world.kill().await;
    let next = world.peer();
    let events = next.events(&run).await;
    assert!(
        matches!(events.last(), Some(Event::Result(_))),
        "{:?}",
        kinds(&events)
    );
    let results = events.iter().filter_map(|event| match event {
        Event::ToolResult(result) => Some(result.ok),
        _ => None,
    });
    assert_eq!(
        results.collect::<Vec<_>>(),
        [false],
        "its outcome is unknown"
    );
    assert_eq!(*host.calls.borrow(), 1);
    next.stop().await;
}
