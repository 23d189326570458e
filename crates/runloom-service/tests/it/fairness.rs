//! A workspace with many runs does not keep others waiting.

use std::sync::Arc;

use runloom_ports::model::Message;
use runloom_ports::store::{Millis, WorkspaceNo, WorkspaceRow};

use crate::scripted::{Gate, Piece};
use crate::world::{World, settings, soon};

/// Who calls from another workspace.
async fn become_rival(world: &mut World) {
    let row = WorkspaceRow {
        no: WorkspaceNo(0),
        slug: "rival".to_owned(),
        name: "Rival".to_owned(),
        without: Vec::new(),
    };
    let row = world.store.put_workspace(row, Millis(0)).await.unwrap();
    world.caller.workspace = Arc::new(row);
}

/// One place, taken by a run that waits for `gate`; behind it a hundred runs, and then one of somebody else.
async fn crowd(gate: &Gate) -> (World, String) {
    let mut settings = settings();
    settings.max_concurrent = 1;
    let mut world = World::with(settings).await;
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("ok")]);
    world.run("first").await;
    soon(world.model.called(1)).await;
    for _ in 0..100 {
        world.run("many").await;
    }
    become_rival(&mut world).await;
    let single = world.run("single").await;
    (world, single)
}

/// Which call of the model was about `prompt`.
fn turn_of(world: &World, prompt: &str) -> usize {
    let asked = |message: &Message| matches!(message, Message::User { text } if **text == *prompt);
    let requests = world.model.requests();
    let turn = requests
        .iter()
        .position(|request| request.messages.iter().any(asked));
    turn.expect("the model was asked")
}

#[tokio::test]
async fn a_single_run_is_next_but_one_whatever_others_have_waiting() {
    let gate = Gate::new();
    let (world, single) = crowd(&gate).await;
    gate.open();
    world.events(&single).await;
    assert!(turn_of(&world, "single") <= 2);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_that_finds_a_backlog_begins_with_every_workspace() {
    let (world, single) = crowd(&Gate::new()).await;
    world.kill().await;
    // More runs wait than one sweep offers.
    let next = world.peer();
    next.events(&single).await;
    assert!(turn_of(&next, "single") <= 2);
    next.stop().await;
}
