//! Providers that fail.

use std::time::Duration;

use runloom_ports::model::ModelError;
use runloom_protocol::event::Event;
use runloom_protocol::limits::JSON_DEPTH_MAX;
use runloom_protocol::outcome::{ErrorClass, RunError};
use runloom_protocol::resource::RunStatus;

use crate::scripted::{Piece, server_error};
use crate::world::{World, kinds, nested};

async fn failure(world: &World, run: &str) -> RunError {
    let events = world.events(run).await;
    let Some(Event::Error(error)) = events.last() else {
        panic!("no error: {:?}", kinds(&events));
    };
    assert_eq!(world.status(run).await, RunStatus::Failed);
    error.clone()
}

#[tokio::test]
async fn failures_before_anything_was_shown_are_retried_in_silence() {
    let world = World::new().await;
    world.model.script([Piece::Refuse(server_error())]);
    world.model.script([Piece::Break(server_error())]);
    world.model.script([Piece::Text("at last")]);
    let run = world.run("try").await;
    let events = world.events(&run).await;
    let shown = ["started", "assistant_delta", "assistant_message", "result"];
    assert_eq!(kinds(&events), shown);
    assert!(matches!(events.last(), Some(Event::Result(result)) if result.turns == 1));
    assert_eq!(world.model.calls(), 3);
    world.stop().await;
}

#[tokio::test]
async fn nothing_is_retried_after_something_was_shown() {
    let world = World::new().await;
    world.model.script([
        Piece::Text("so f"),
        Piece::Usage(7, 3),
        Piece::Break(server_error()),
    ]);
    let run = world.run("try").await;
    let error = failure(&world, &run).await;
    assert_eq!(error.partial_text.as_deref(), Some("so f"));
    assert_eq!(
        (error.error_class, error.api_status),
        (ErrorClass::Server, Some(500))
    );
    assert_eq!((error.turns, error.tokens.output_tokens), (1, 3));
    assert_eq!(world.model.calls(), 1);
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.final_text.as_deref(), Some("so f"));
    assert_eq!(
        snapshot.failure_reason.unwrap().error_class,
        ErrorClass::Server
    );
    world.stop().await;
}

#[tokio::test]
async fn arguments_that_lie_too_deep_to_be_stored_are_asked_for_again() {
    let world = World::new().await;
    let deep = nested(JSON_DEPTH_MAX + 1);
    world.model.script([Piece::Call("look", deep)]);
    world.model.script([Piece::Text("in words then")]);
    let run = world.run("try").await;
    let events = world.events(&run).await;
    // The turn is there, with its finish reason and without the call.
    let (first, rest) = (&events[1], &kinds(&events)[2..]);
    assert!(matches!(first, Event::AssistantMessage(message) if message.tool_calls.is_empty()));
    assert_eq!(rest, ["assistant_delta", "assistant_message", "result"]);
    world.stop().await;
}

#[tokio::test]
async fn retries_are_counted() {
    let mut settings = crate::world::settings();
    settings.driver.model_retries = 2;
    let world = World::with(settings).await;
    (0..5).for_each(|_| world.model.script([Piece::Refuse(server_error())]));
    let run = world.run("try").await;
    let error = failure(&world, &run).await;
    assert_eq!((error.turns, error.retryable), (1, Some(true)));
    assert_eq!(world.model.calls(), 3);
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_succeed_later_and_what_takes_too_long_is_not_retried() {
    let world = World::new().await;
    let refused = ModelError::new(ErrorClass::Auth, "bad key");
    let mut patient = server_error();
    patient.retry_after = Some(Duration::from_secs(3_600));
    for error in [refused, patient] {
        let class = error.class;
        world.model.script([Piece::Refuse(error)]);
        let run = world.run("try").await;
        assert_eq!(failure(&world, &run).await.error_class, class);
    }
    assert_eq!(world.model.calls(), 2);
    world.stop().await;
}
