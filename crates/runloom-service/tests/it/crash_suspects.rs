//! Runs that were interrupted again and again, and those beside them.

use runloom_ports::store::{Batch, Chunk, ClaimOutcome, MailNo, Next, RunNo, SubRuns};
use runloom_protocol::event::Event;
use runloom_protocol::resource::RunStatus;

use crate::scripted::{Gate, Piece};
use crate::world::{World, kinds, soon};

/// A queued run that has crashed this number of workers.
async fn broken(world: &World, times: usize) -> String {
    let run = world.run("try").await;
    let last = world.store.claimable(world.now(), u32::MAX, 100).await;
    let no = last.unwrap().last().unwrap().run;
    for _ in 0..times {
        break_worker(world, no).await;
    }
    run
}

async fn break_worker(world: &World, no: RunNo) {
    let claimed = world.store.claim(no, "broken", world.now(), u32::MAX).await;
    let ClaimOutcome::Claimed(claim) = claimed.unwrap() else {
        panic!("nobody else wants it");
    };
    let batch = Batch {
        chunk: Chunk {
            first_seq: 1,
            last_seq: 0,
            terminal: false,
            frames: bytes::Bytes::new(),
        },
        notes: String::new(),
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
        next: Next::Return,
    };
    world.store.commit(claim.lease, batch).await.unwrap();
}

#[tokio::test]
async fn suspects_make_their_last_attempt_one_after_the_other() {
    let world = World::new().await;
    world.stop().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(broken(&world, 4).await);
    }
    let next = world.peer();
    let gate = Gate::new();
    (0..3).for_each(|_| next.model.script([Piece::Hold(gate.clone())]));
    for nth in 1..=3 {
        soon(next.model.called(nth)).await;
        soon(next.model.dropped(nth - 1)).await;
        assert_eq!(next.model.calls(), nth, "it is not the only one");
        gate.open();
    }
    for run in runs {
        assert_eq!(kinds(&next.events(&run).await).last(), Some(&"result"));
    }
    next.stop().await;
}

#[tokio::test]
async fn others_go_on_beside_a_suspect_and_suspicion_ends_when_it_gets_further() {
    let world = World::new().await;
    world.stop().await;
    let (first, second) = (broken(&world, 4).await, broken(&world, 4).await);
    let next = world.peer();
    let (turn, end) = (Gate::new(), Gate::new());
    next.model.script([
        Piece::Hold(turn.clone()),
        Piece::Call("send", serde_json::json!({})),
    ]);
    soon(next.model.called(1)).await;
    let other = next.run("hi").await;
    assert_eq!(kinds(&next.events(&other).await).last(), Some(&"result"));
    next.model.script([Piece::Hold(end.clone())]);
    turn.open();
    // The first one waits for its client, which is further than it ever came. The second is let in.
    soon(next.model.called(3)).await;
    assert_eq!(next.status(&first).await, RunStatus::WaitingTool);
    end.open();
    assert_eq!(kinds(&next.events(&second).await).last(), Some(&"result"));
    next.stop().await;
}

#[tokio::test]
async fn a_run_that_was_interrupted_too_often_is_given_up_untouched() {
    let world = World::new().await;
    world.stop().await;
    let run = broken(&world, 5).await;
    let next = world.peer();
    let events = next.events(&run).await;
    let given_up = |error: &str| error.contains("interrupted 5 times");
    assert!(matches!(events.last(), Some(Event::Error(error)) if given_up(&error.error)));
    assert_eq!(kinds(&events), ["started", "error"]);
    assert_eq!(next.model.calls(), 0);
    next.stop().await;
}

#[tokio::test]
async fn a_suspect_that_waits_is_cancelled_at_once() {
    let world = World::new().await;
    world.stop().await;
    let (first, second) = (broken(&world, 4).await, broken(&world, 4).await);
    let next = world.peer();
    next.model.script([Piece::Hold(Gate::new())]);
    soon(next.model.called(1)).await;
    next.cancel(&second).await;
    assert_eq!(kinds(&next.events(&second).await), ["started", "cancelled"]);
    next.cancel(&first).await;
    next.events(&first).await;
    assert_eq!(next.model.calls(), 1);
    next.stop().await;
}
