//! Runs that wait for a client, here and parked.

use std::time::Duration;

use runloom_protocol::event::Event;
use runloom_protocol::limits::JSON_DEPTH_MAX;
use runloom_protocol::resource::RunStatus;
use runloom_service::error::Error;
use serde_json::json;

use crate::scripted::Piece;
use crate::world::{World, asked, nested, parking, settings};

#[tokio::test]
async fn a_parked_run_holds_no_place_and_goes_on_with_its_answer() {
    let mut settings = parking();
    settings.max_concurrent = 1;
    let world = World::with(settings).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = world.run("send it").await;
    let mut watcher = world.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    world.parked().await;
    assert_eq!(world.status(&run).await, RunStatus::WaitingTool);
    let other = world.run("meanwhile").await;
    assert!(matches!(
        world.events(&other).await.last(),
        Some(Event::Result(_))
    ));
    world.answer(&run, &call, "sent").await.unwrap();
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(result)) if result.turns == 2));
    assert!(watcher.bytes == world.stored(&run, 0).await);
    world.stop().await;
}

#[tokio::test]
async fn the_deepest_arguments_are_read_back_after_a_park() {
    let world = World::with(parking()).await;
    let deepest = nested(JSON_DEPTH_MAX);
    world.model.script([Piece::Call("look", deepest)]);
    let run = world.run("look").await;
    let mut watcher = world.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    world.parked().await;
    world.answer(&run, &call, "seen").await.unwrap();
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(result)) if result.turns == 2));
    assert_eq!(world.model.calls(), 2);
    world.stop().await;
}

#[tokio::test]
async fn each_answer_of_a_parked_run_wakes_it() {
    let world = World::with(parking()).await;
    world.model.script([
        Piece::Call("look", json!({"a": 1})),
        Piece::Call("look", json!({"a": 2})),
    ]);
    let run = world.run("look").await;
    let mut watcher = world.watch(&run, 0).await;
    let Event::AssistantMessage(message) = watcher.until("assistant_message").await else {
        panic!("no message");
    };
    for call in message.tool_calls.iter().rev() {
        world.parked().await;
        world.answer(&run, &call.id, "seen").await.unwrap();
        watcher.until("local_tool_result_in").await;
    }
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(_))));
    world.stop().await;
}

async fn times_out(park_after: Duration) {
    let mut settings = settings();
    settings.driver.park_after = park_after;
    settings.driver.local_tool_timeout = Duration::from_millis(60);
    let world = World::with(settings).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = world.run("send it").await;
    let mut watcher = world.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    let Event::LocalToolResultIn(result) = watcher.until("local_tool_result_in").await else {
        panic!("no timeout");
    };
    assert_eq!(result.tool_use_id, call);
    assert_eq!(
        result.error.as_deref(),
        Some("Timed out waiting for local tool result")
    );
    let late = world.answer(&run, &call, "late").await;
    assert!(matches!(
        late,
        Err(Error::UnknownToolUse | Error::RunTerminal)
    ));
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(_))));
    world.stop().await;
}

#[tokio::test]
async fn a_call_times_out_while_its_run_is_driven() {
    times_out(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_call_times_out_while_its_run_is_parked() {
    times_out(Duration::from_millis(1)).await;
}

#[tokio::test]
async fn the_wall_clock_ends_a_run_that_waits() {
    for park_after in [Duration::from_millis(1), Duration::from_secs(60)] {
        let mut settings = settings();
        settings.driver.park_after = park_after;
        let world = World::with(settings).await;
        world.model.script([Piece::Call("send", json!({}))]);
        let run = world
            .run_with("send", |spec| spec.budgets.max_wall_ms = Some(80))
            .await;
        let events = world.events(&run).await;
        let Some(Event::Error(error)) = events.last() else {
            panic!("out of time: {events:?}");
        };
        assert_eq!(error.error_class.as_str(), "local_timeout");
        assert_eq!(error.retryable, Some(false));
        world.stop().await;
    }
}
