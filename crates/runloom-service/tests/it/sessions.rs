//! Messages of one session run one after the other.

use std::sync::Arc;

use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;
use runloom_ports::store::{Millis, WorkspaceNo, WorkspaceRow};
use runloom_protocol::event::Event;
use runloom_protocol::resource::RunStatus;
use runloom_service::error::Error;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{World, settings, soon};

fn said(messages: &Conversation) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| match message {
            Message::User { text } | Message::Assistant { text, .. } => Some(&**text),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn messages_run_in_the_order_of_their_arrival_and_see_what_was_said() {
    let world = World::new().await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("1")]);
    world.model.script([Piece::Text("2")]);
    world.model.script([Piece::Text("3")]);
    let session = world.session().await;
    let mut runs = Vec::new();
    for text in ["one", "two", "three"] {
        runs.push(world.message(&session, text).await);
    }
    soon(world.model.called(1)).await;
    assert_eq!(world.status(&runs[1]).await, RunStatus::Queued);
    assert_eq!(world.status(&runs[2]).await, RunStatus::Queued);
    gate.open();
    for run in &runs {
        assert!(matches!(
            world.events(run).await.last(),
            Some(Event::Result(_))
        ));
    }
    let requests = world.model.requests();
    assert_eq!(said(&requests[0].messages), ["one"]);
    assert_eq!(said(&requests[1].messages), ["one", "1", "two"]);
    assert_eq!(
        said(&requests[2].messages),
        ["one", "1", "two", "2", "three"]
    );
    let history = world.history(&session).await;
    assert_eq!(history.len(), 6);
    world.stop().await;
}

#[tokio::test]
async fn a_conversation_is_remembered_whole_from_message_to_message() {
    let world = World::new().await;
    let session = world.session().await;
    let mut told = Vec::new();
    for turn in 0..6 {
        let text = format!("question {turn}");
        world.model.script([Piece::Text("answer")]);
        let run = world.message(&session, &text).await;
        world.events(&run).await;
        told.push(text);
        let requests = world.model.requests();
        assert_eq!(said(&requests[turn].messages), told);
        told.push("answer".to_owned());
    }
    world.stop().await;
}

#[tokio::test]
async fn failed_and_cancelled_runs_leave_no_trace_in_the_session() {
    let world = World::new().await;
    let mut fatal = server_error();
    fatal.retryable = false;
    world.model.script([Piece::Refuse(fatal)]);
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(Gate::new())]);
    world.model.script([Piece::Text("fine")]);
    let session = world.session().await;
    let failed = world.message(&session, "one").await;
    assert!(matches!(
        world.events(&failed).await.last(),
        Some(Event::Error(_))
    ));
    let cancelled = world.message(&session, "two").await;
    let mut watcher = world.watch(&cancelled, 0).await;
    watcher.until("assistant_delta").await;
    world.cancel(&cancelled).await;
    watcher.rest().await;
    assert_eq!(world.history(&session).await, [""; 0]);
    let good = world.message(&session, "three").await;
    world.events(&good).await;
    assert_eq!(
        world.history(&session).await,
        ["User: three", "Assistant: fine"]
    );
    assert_eq!(said(&world.model.requests()[2].messages), ["three"]);
    world.stop().await;
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    let world = World::new().await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("slow")]);
    let (one, other) = (world.session().await, world.session().await);
    let slow = world.message(&one, "slow").await;
    soon(world.model.called(1)).await;
    let quick = world.message(&other, "quick").await;
    assert!(matches!(
        world.events(&quick).await.last(),
        Some(Event::Result(_))
    ));
    assert_eq!(world.status(&slow).await, RunStatus::Running);
    gate.open();
    world.events(&slow).await;
    world.stop().await;
}

/// A server with a session of which it knows all that was said.
async fn world_that_remembers() -> (World, String) {
    let world = World::new().await;
    let session = remembered_by(&world).await;
    (world, session)
}

async fn remembered_by(world: &World) -> String {
    let session = world.session().await;
    for (question, answer) in [("one", "1"), ("two", "2")] {
        world.model.script([Piece::Text(answer)]);
        let run = world.message(&session, question).await;
        world.events(&run).await;
    }
    session
}

#[tokio::test]
async fn a_message_that_had_to_wait_for_a_place_is_known_to_the_next() {
    let mut narrow = settings();
    narrow.max_concurrent = 1;
    let world = World::with(narrow).await;
    let session = remembered_by(&world).await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Hold(gate.clone()), Piece::Text("slow")]);
    let elsewhere = world.session().await;
    let slow = world.message(&elsewhere, "slow").await;
    soon(world.model.called(3)).await;
    let waits = world.message(&session, "three").await;
    gate.open();
    for run in [&slow, &waits] {
        world.events(run).await;
    }
    let next = world.message(&session, "four").await;
    world.events(&next).await;
    let requests = world.model.requests();
    assert_eq!(requests.len(), 5, "nobody was asked in vain");
    assert_eq!(requests[4].messages.len(), 7);
    world.stop().await;
}

#[tokio::test]
async fn what_another_server_was_told_meanwhile_is_not_missed() {
    let (world, session) = world_that_remembers().await;
    let peer = world.peer();
    peer.model.script([Piece::Text("3")]);
    let elsewhere = peer.message(&session, "three").await;
    peer.events(&elsewhere).await;
    let here = world.message(&session, "four").await;
    world.events(&here).await;
    let requests = world.model.requests();
    assert_eq!(
        said(&requests.last().unwrap().messages),
        ["one", "1", "two", "2", "three", "3", "four"]
    );
    assert_eq!(world.history(&session).await.len(), 8);
    peer.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_is_remembered_is_still_nobody_elses() {
    let (world, session) = world_that_remembers().await;
    let row = WorkspaceRow {
        no: WorkspaceNo(0),
        slug: "rival".to_owned(),
        name: "Rival".to_owned(),
        without: Vec::new(),
    };
    let mut rival = world.caller.clone();
    rival.workspace = Arc::new(world.store.put_workspace(row, Millis(0)).await.unwrap());
    let refused = world.try_message(&rival, &session, "mine").await;
    assert!(matches!(refused, Err(Error::NotFound { what: "session" })));
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(world.history(&session).await.len(), 4);
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_has_ended_calls_no_model_however_well_it_is_remembered() {
    let (world, session) = world_that_remembers().await;
    let ended = world.service.sessions().end(&world.caller, &session).await;
    ended.unwrap();
    let refused = world.try_message(&world.caller, &session, "three").await;
    assert!(matches!(refused, Err(Error::SessionEnded)));
    assert_eq!(world.model.requests().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_another_server_has_ended_takes_no_message() {
    let (world, session) = world_that_remembers().await;
    let peer = world.peer();
    let ended = peer.service.sessions().end(&peer.caller, &session).await;
    ended.unwrap();
    let refused = world.try_message(&world.caller, &session, "three").await;
    assert!(matches!(refused, Err(Error::SessionEnded)));
    assert_eq!(world.history(&session).await.len(), 4);
    peer.stop().await;
    world.stop().await;
}
