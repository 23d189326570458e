//! A worker stops and another one goes on.

use runloom_ports::store::{Batch, Chunk, ClaimOutcome, MailNo, Next, SubRuns};
use runloom_protocol::event::Event;
use runloom_protocol::resource::RunStatus;
use serde_json::json;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{World, asked, kinds, soon};

#[tokio::test]
async fn a_turn_that_is_cut_off_is_called_again_by_the_next_worker() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("hal"), Piece::Hold(Gate::new())]);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.kill().await;
    assert_eq!(world.status(&run).await, RunStatus::Running);
    let next = world.peer();
    next.model.script([Piece::Text("whole")]);
    let events = next.events(&run).await;
    let shown = [
        "started",
        "assistant_delta",
        "turn_restarted",
        "assistant_delta",
        "assistant_message",
        "result",
    ];
    assert_eq!(kinds(&events), shown);
    assert!(
        matches!(events.last(), Some(Event::Result(result)) if result.text == "whole" && result.turns == 1)
    );
    next.stop().await;
}

#[tokio::test]
async fn a_turn_may_end_before_the_worker_stops() {
    let world = World::new().await;
    let gate = Gate::new();
    world.model.script([
        Piece::Text("a"),
        Piece::Hold(gate.clone()),
        Piece::Call("send", json!({})),
    ]);
    let run = world.run("send").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.tasks.shutdown.drain();
    gate.open();
    world.stop().await;
    assert_eq!(world.status(&run).await, RunStatus::WaitingTool);
    let next = world.peer();
    let mut watcher = next.watch(&run, 0).await;
    let call = asked(&watcher.until("local_tool_call").await);
    next.answer(&run, &call, "sent").await.unwrap();
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(result)) if result.turns == 2));
    let asked = watcher
        .kinds()
        .into_iter()
        .filter(|kind| *kind == "local_tool_call");
    assert_eq!(asked.count(), 1, "a client is never asked twice");
    next.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_a_retry_is_handed_over_when_the_worker_stops() {
    let world = World::new().await;
    let mut error = server_error();
    error.retry_after = Some(std::time::Duration::from_secs(50));
    world.model.script([Piece::Refuse(error)]);
    let run = world.run("try").await;
    soon(world.model.called(1)).await;
    world.stop().await;
    let next = world.peer();
    assert_eq!(kinds(&next.events(&run).await).last(), Some(&"result"));
    next.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_takes_nothing_new() {
    let world = World::new().await;
    world.stop().await;
    let run = world.run("later").await;
    assert_eq!(world.status(&run).await, RunStatus::Queued);
    assert_eq!(world.model.calls(), 0);
    let next = world.peer();
    assert_eq!(kinds(&next.events(&run).await).last(), Some(&"result"));
    next.stop().await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_writes_nothing_more() {
    let world = World::new().await;
    let gate = Gate::new();
    world.model.script([
        Piece::Text("a"),
        Piece::Hold(gate.clone()),
        Piece::Text("b"),
    ]);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    // Far in the future nobody was heard of lately, so the lease can be taken.
    let no = world
        .hub
        .find(&runloom_protocol::id::RunId::parse(&run).unwrap())
        .unwrap()
        .no;
    let later = runloom_ports::store::Millis(world.now().0 + 3_600_000);
    let claimed = world.store.claim(no, "somebody", later, 1).await.unwrap();
    assert!(matches!(
        claimed,
        runloom_ports::store::ClaimOutcome::Claimed(_)
    ));
    let before = world.stored(&run, 0).await;
    gate.open();
    soon(world.model.dropped(1)).await;
    world.stop().await;
    assert!(world.stored(&run, 0).await == before);
    assert_eq!(world.status(&run).await, RunStatus::Running);
}

#[tokio::test]
async fn a_run_whose_log_cannot_be_read_ends_and_says_so() {
    let unknown_note = r#"[{"after":2,"note":"of_a_newer_version"}]"#;
    ends_unreadable("", unknown_note).await;
    // A known event that is not what it should be: without it the state would be one that the run never had.
    let frame = |seq: u64| {
        format!(
            "id: {seq}\nevent: assistant_message\ndata: {{\"seq\":{seq},\"type\":\"assistant_message\",\"data\":{{}}}}\n\n"
        )
    };
    ends_unreadable(&frame(3), "").await;
}

/// Another version leaves these records behind in the middle of a run.
async fn ends_unreadable(frames: &str, notes: &str) {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("hal"), Piece::Hold(Gate::new())]);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.kill().await;
    let waiting = world.store.claimable(world.now(), 1, 1).await.unwrap();
    let claimed = world
        .store
        .claim(waiting[0].run, "a newer version", world.now(), u32::MAX);
    let ClaimOutcome::Claimed(claim) = claimed.await.unwrap() else {
        panic!("nobody else wants it");
    };
    let seq = claim.log.last().unwrap().chunk.last_seq;
    let last_seq = if frames.is_empty() { seq } else { seq + 1 };
    let batch = Batch {
        chunk: Chunk {
            first_seq: seq + 1,
            last_seq,
            terminal: false,
            frames: bytes::Bytes::copy_from_slice(frames.as_bytes()),
        },
        notes: notes.to_owned(),
        at: world.now(),
        opened: Vec::new(),
        closed: Vec::new(),
        approvals: Vec::new(),
        expired_approvals: Vec::new(),
        mail_through: MailNo::default(),
        unless_mail: false,
        status: None,
        mail: Vec::new(),
        sub_runs: SubRuns::default(),
        stop_below: None,
        usage: None,
        speaker: None,
        progress: false,
        next: Next::Release,
    };
    world.store.commit(claim.lease, batch).await.unwrap();
    let next = world.peer();
    let mut rest = next.watch(&run, last_seq).await;
    rest.rest().await;
    let events = rest.events;
    assert!(
        matches!(events.last(), Some(Event::Error(error)) if error.error.contains("cannot be read")),
        "{events:?}"
    );
    assert_eq!(next.status(&run).await, RunStatus::Failed);
    next.stop().await;
}
