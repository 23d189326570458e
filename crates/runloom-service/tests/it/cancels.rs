//! A cancel in every phase of a run's life.

use std::time::Duration;

use runloom_protocol::event::Event;
use runloom_protocol::outcome::RunCancelled;
use runloom_protocol::resource::RunStatus;
use serde_json::json;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{Watcher, World, asked, parking, soon};

/// Waits for the end and checks what every receipt has.
async fn receipt(world: &World, run: &str, watcher: &mut Watcher) -> RunCancelled {
    watcher.rest().await;
    let Some(Event::Cancelled(receipt)) = watcher.events.last() else {
        panic!("not cancelled: {:?}", watcher.kinds());
    };
    assert_eq!(receipt.reason, "user");
    let (requested, stopped) = (receipt.requested_at.as_ref(), receipt.stopped_at.as_ref());
    assert!(
        requested.is_some() && requested <= stopped,
        "{requested:?} {stopped:?}"
    );
    assert!(receipt.model.is_some());
    let snapshot = world.snapshot(run).await;
    assert_eq!(snapshot.status, RunStatus::Cancelled);
    assert_eq!(snapshot.cancel.as_ref(), Some(receipt));
    assert_eq!(snapshot.turns, Some(receipt.turns));
    receipt.clone()
}

#[tokio::test]
async fn a_streaming_call_is_dropped_at_once_and_its_cost_told() {
    let world = World::new().await;
    let say = [
        Piece::Usage(1_000_000, 0),
        Piece::Text("a"),
        Piece::Hold(Gate::new()),
    ];
    world.model.script(say);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.cancel(&run).await;
    soon(world.model.dropped(1)).await;
    let receipt = receipt(&world, &run, &mut watcher).await;
    assert_eq!(receipt.interrupted, ["model"]);
    assert_eq!((receipt.turns, receipt.tokens.input_tokens), (1, 1_000_000));
    assert_eq!(receipt.cost_usd, Some(1.0));
    assert_eq!(watcher.kinds(), ["started", "assistant_delta", "cancelled"]);
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_a_client_is_cancelled_and_the_late_answer_ignored() {
    for settings in [crate::world::settings(), parking()] {
        let is_parked = settings.driver.park_after < Duration::from_secs(1);
        let world = World::with(settings).await;
        world
            .model
            .script([Piece::Call("send", json!({})), Piece::Usage(10, 20)]);
        let run = world.run("send").await;
        let mut watcher = world.watch(&run, 0).await;
        let call = asked(&watcher.until("local_tool_call").await);
        if is_parked {
            world.parked().await;
        }
        world.cancel(&run).await;
        let receipt = receipt(&world, &run, &mut watcher).await;
        assert_eq!(receipt.interrupted, ["send"]);
        assert_eq!((receipt.turns, receipt.tokens.output_tokens), (1, 20));
        world.answer(&run, &call, "late").await.unwrap();
        world.stop().await;
    }
}

#[tokio::test]
async fn a_queued_run_is_cancelled_although_every_place_is_taken() {
    let mut settings = crate::world::settings();
    settings.max_concurrent = 1;
    let world = World::with(settings).await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(gate.clone())]);
    let busy = world.run("first").await;
    world.watch(&busy, 0).await.until("assistant_delta").await;
    let queued = world.run("second").await;
    assert_eq!(world.status(&queued).await, RunStatus::Queued);
    let mut watcher = world.watch(&queued, 0).await;
    world.cancel(&queued).await;
    let receipt = receipt(&world, &queued, &mut watcher).await;
    assert_eq!(receipt.turns, 0);
    assert_eq!(watcher.kinds(), ["started", "cancelled"]);
    assert_eq!(world.status(&busy).await, RunStatus::Running);
    gate.open();
    world.events(&busy).await;
    world.stop().await;
}

#[tokio::test]
async fn cancels_between_attempts() {
    let world = World::new().await;
    let mut error = server_error();
    error.retry_after = Some(Duration::from_secs(50));
    world.model.script([Piece::Refuse(error)]);
    let run = world.run("try").await;
    let mut watcher = world.watch(&run, 0).await;
    soon(world.model.called(1)).await;
    world.cancel(&run).await;
    let receipt = receipt(&world, &run, &mut watcher).await;
    assert_eq!(receipt.turns, 1);
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_message_behind_another_is_cancelled_without_its_turn() {
    let world = World::new().await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("first")]);
    let session = world.session().await;
    let first = world.message(&session, "one").await;
    soon(world.model.called(1)).await;
    let second = world.message(&session, "two").await;
    assert_eq!(world.status(&second).await, RunStatus::Queued);
    let mut watcher = world.watch(&second, 0).await;
    world.cancel(&second).await;
    let receipt = receipt(&world, &second, &mut watcher).await;
    assert_eq!(watcher.kinds(), ["started", "cancelled"]);
    assert_eq!((receipt.turns, receipt.interrupted), (0, Vec::new()));
    assert_eq!(world.status(&first).await, RunStatus::Running);
    gate.open();
    world.events(&first).await;
    assert_eq!(
        world.history(&session).await,
        ["User: one", "Assistant: first"]
    );
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}

#[tokio::test]
async fn cancel_keeps_finished_runs() {
    let world = World::new().await;
    let run = world.run("hi").await;
    let events = world.events(&run).await;
    world.cancel(&run).await;
    world.cancel(&run).await;
    assert_eq!(world.events(&run).await, events);
    assert_eq!(world.status(&run).await, RunStatus::Succeeded);
    world.stop().await;
}

#[tokio::test]
async fn cancelling_twice_ends_once() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(Gate::new())]);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    tokio::join!(world.cancel(&run), world.cancel(&run));
    receipt(&world, &run, &mut watcher).await;
    assert!(watcher.bytes == world.stored(&run, 0).await);
    world.stop().await;
}

#[tokio::test]
async fn the_end_of_a_session_cancels_its_runs() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(Gate::new())]);
    let session = world.session().await;
    let first = world.message(&session, "one").await;
    let mut watcher = world.watch(&first, 0).await;
    watcher.until("assistant_delta").await;
    let second = world.message(&session, "two").await;
    world
        .service
        .sessions()
        .end(&world.caller, &session)
        .await
        .unwrap();
    for run in [first, second] {
        let events = world.events(&run).await;
        let ended =
            matches!(events.last(), Some(Event::Cancelled(c)) if c.reason == "session_ended");
        assert!(ended, "{events:?}");
    }
    assert_eq!(world.history(&session).await, [""; 0]);
    world.stop().await;
}
