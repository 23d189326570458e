//! Runs that make their driver panic.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunStatus;

use crate::scripted::Piece;
use crate::world::{World, kinds};

/// More than any limit of attempts.
const OFTEN: usize = 50;

#[tokio::test]
async fn a_driver_that_panics_once_gives_the_run_back() {
    for shown in [false, true] {
        let world = World::new().await;
        let mut script = vec![Piece::Panic];
        if shown {
            // The delta must be durable before the panic: a long one is.
            script.insert(0, Piece::Long(300_000));
        }
        world.model.script(script);
        world.model.script([Piece::Text("fine")]);
        let run = world.run("try").await;
        let events = world.events(&run).await;
        assert!(matches!(events.last(), Some(Event::Result(result)) if result.text == "fine"));
        assert_eq!(world.model.calls(), 2);
        world.stop().await;
        assert_eq!(world.worker.busy(), 0);
    }
}

#[tokio::test]
async fn a_run_that_always_panics_its_driver_is_given_up() {
    let world = World::new().await;
    (0..OFTEN).for_each(|_| world.model.script([Piece::Panic]));
    let run = world.run("try").await;
    let events = world.events(&run).await;
    assert_eq!(kinds(&events), ["started", "error"]);
    assert!(
        matches!(events.last(), Some(Event::Error(error)) if error.error_class == ErrorClass::Server)
    );
    assert_eq!(world.status(&run).await, RunStatus::Failed);
    assert!(world.model.calls() < 10, "{} calls", world.model.calls());
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_always_panics_after_its_first_words_is_given_up() {
    let world = World::new().await;
    let gates: Vec<_> = (0..OFTEN).map(|_| crate::scripted::Gate::new()).collect();
    for gate in &gates {
        world
            .model
            .script([Piece::Text("a"), Piece::Hold(gate.clone()), Piece::Panic]);
    }
    let run = world.run("try").await;
    let mut watcher = world.watch(&run, 0).await;
    for (attempt, gate) in gates.iter().enumerate() {
        // Everything up to the delta of this attempt is durable, because it is shown.
        while deltas(&watcher.kinds()) <= attempt && !watcher.kinds().contains(&"error") {
            watcher.until_more().await;
        }
        if watcher.kinds().contains(&"error") {
            break;
        }
        gate.open();
    }
    assert!(watcher.kinds().contains(&"error"), "never given up");
    assert!(watcher.kinds().contains(&"turn_restarted"));
    assert!(world.model.calls() < 10, "{} calls", world.model.calls());
    world.stop().await;
}

fn deltas(kinds: &[&str]) -> usize {
    kinds
        .iter()
        .filter(|kind| **kind == "assistant_delta")
        .count()
}
