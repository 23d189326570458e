//! From the request to the result.

use futures_util::FutureExt;
use runloom_ports::model::Message;
use runloom_protocol::event::Event;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::CreateRun;
use runloom_service::error::Error;
use serde_json::json;

use crate::scripted::{Gate, Piece};
use crate::world::{World, asked, kinds, settings, soon};

#[tokio::test]
async fn a_run_goes_from_prompt_to_result() {
    let world = World::new().await;
    let gate = Gate::new();
    let say = [
        Piece::Text("hel"),
        Piece::Hold(gate.clone()),
        Piece::Text("lo"),
        Piece::Usage(1_000_000, 500_000),
    ];
    world.model.script(say);
    let run = world.run("say hello").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    assert_eq!(world.status(&run).await, RunStatus::Running);
    gate.open();
    watcher.rest().await;
    let shown = [
        "started",
        "assistant_delta",
        "assistant_delta",
        "assistant_message",
        "result",
    ];
    assert_eq!(watcher.kinds(), shown);
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.status, RunStatus::Succeeded);
    assert_eq!(snapshot.final_text.as_deref(), Some("hello"));
    assert_eq!((snapshot.turns, snapshot.cost_usd), (Some(1), Some(2.0)));
    assert_eq!(snapshot.tokens.unwrap().input_tokens, 1_000_000);
    assert!(snapshot.completed_at.is_some());
    let request = world.model.requests().remove(0);
    assert_eq!(&*request.system, "be brief");
    assert_eq!(request.tools.len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_run_without_a_free_place_is_queued_and_looks_the_same() {
    let mut settings = settings();
    settings.max_concurrent = 2;
    let world = World::with(settings).await;
    let gate = Gate::new();
    // One place is for those who start at once, one for those who wait in the queue.
    for called in 1..=2 {
        world
            .model
            .script([Piece::Hold(gate.clone()), Piece::Text("ok")]);
        let run = world.run("first").await;
        soon(world.model.called(called)).await;
        assert_eq!(world.status(&run).await, RunStatus::Running);
    }
    assert_eq!(world.worker.busy(), 2);
    let at_once = world.newest().await.unwrap();
    let queued = world.run("last").await;
    assert_eq!(world.status(&queued).await, RunStatus::Queued);
    gate.open();
    gate.open();
    let (one, other) = (world.events(&at_once).await, world.events(&queued).await);
    assert_eq!(kinds(&one), kinds(&other));
    assert_eq!(world.status(&queued).await, RunStatus::Succeeded);
    world.stop().await;
    assert_eq!(world.worker.busy(), 0);
}

#[tokio::test]
async fn thinking_is_shown_only_to_those_who_asked() {
    let world = World::new().await;
    for (level, shown) in [(None, false), (Some(0), false), (Some(30), true)] {
        world
            .model
            .script([Piece::Thinking("hm"), Piece::Text("so")]);
        let run = world
            .run_with("think", |spec| spec.reasoning_level = level)
            .await;
        let events = world.events(&run).await;
        assert_eq!(
            kinds(&events).contains(&"thinking_delta"),
            shown,
            "{level:?}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_client_executes_a_tool_and_the_model_reads_its_answer() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Call("send", json!({"to": "x"}))]);
    let run = world.run("send it").await;
    let mut watcher = world.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    assert_eq!(world.status(&run).await, RunStatus::WaitingTool);
    let unknown = world.answer(&run, "tu_unknown", "?").await;
    assert!(matches!(unknown, Err(Error::UnknownToolUse)));
    world.answer(&run, &call, "sent").await.unwrap();
    watcher.rest().await;
    let shown = [
        "started",
        "assistant_message",
        "local_tool_call",
        "local_tool_result_in",
        "assistant_delta",
        "assistant_message",
        "result",
    ];
    assert_eq!(watcher.kinds(), shown);
    let requests = world.model.requests();
    let told = Message::Tool {
        call_id: "vendor_0".to_owned(),
        name: "send".to_owned(),
        content: "sent".to_owned(),
        is_error: false,
    };
    assert_eq!(requests[1].messages.iter().next_back(), Some(&told));
    let late = world.answer(&run, &call, "again").await;
    assert!(matches!(late, Err(Error::RunTerminal)));
    world.stop().await;
}

#[tokio::test]
async fn a_call_is_answered_once() {
    let world = World::new().await;
    world.model.script([
        Piece::Call("look", json!({"a": 1})),
        Piece::Call("look", json!({"a": 2})),
    ]);
    let run = world.run("look twice").await;
    let mut watcher = world.watch(&run, 0).await;
    let Event::AssistantMessage(message) = watcher.until("assistant_message").await else {
        panic!("no message");
    };
    let [first, second] = message.tool_calls.as_slice() else {
        panic!("two calls");
    };
    watcher.until("local_tool_call").await;
    world.answer(&run, &first.id, "one").await.unwrap();
    let again = world.answer(&run, &first.id, "one more").await;
    assert!(matches!(again, Err(Error::UnknownToolUse)));
    world.answer(&run, &second.id, "two").await.unwrap();
    watcher.rest().await;
    let results = watcher.kinds();
    let answers = results
        .iter()
        .filter(|kind| **kind == "local_tool_result_in");
    assert_eq!(answers.count(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_run_is_driven_although_its_client_hung_up() {
    let world = World::new().await;
    let request = CreateRun {
        spec: serde_json::from_value(json!({"systemPrompt": "be brief"})).unwrap(),
        messages: serde_json::from_value(json!([{"role": "user", "content": "hi"}])).unwrap(),
    };
    let created = world.service.runs().create(&world.caller, request, None);
    assert!(
        created.now_or_never().is_none(),
        "the request is still under way when it is dropped"
    );
    // The model may have answered before the run is there.
    let created = async {
        loop {
            match world.newest().await {
                Some(run) => break run,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let run = soon(created).await;
    assert!(matches!(
        world.events(&run).await.last(),
        Some(Event::Result(_))
    ));
    world.stop().await;
}
