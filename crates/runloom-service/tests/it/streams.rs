//! Subscribers: replay, live tail, and the end.

use std::sync::Arc;

use futures_util::StreamExt;
use runloom_engine::hub::{Hub, subscribe};
use runloom_ports::shutdown::Shutdown;
use runloom_ports::store::WorkspaceNo;
use runloom_protocol::event::{parse_frame, split_frames};
use runloom_protocol::id::RunId;

use crate::scripted::{Gate, Piece};
use crate::world::{Watcher, World};

fn numbers(watcher: &Watcher) -> Vec<u64> {
    split_frames(&watcher.bytes)
        .map(|frame| parse_frame(frame).unwrap().unwrap().seq)
        .collect()
}

/// Everybody who joins sees exactly the stored bytes after the number they know, whenever they come.
async fn every_subscriber_sees_the_stored_bytes(pieces: usize, bytes: usize) {
    let world = World::new().await;
    let gate = Gate::new();
    let held = (0..pieces).flat_map(|_| [Piece::Long(bytes), Piece::Hold(gate.clone())]);
    world.model.script(held.collect::<Vec<_>>());
    let run = world.run("tell").await;
    let mut watchers = Vec::new();
    let mut guide = world.watch(&run, 0).await;
    for piece in 0..pieces {
        while guide.events.len() < piece + 2 {
            guide.until_more().await;
        }
        let known = guide.events.len() as u64;
        for after in [0, known / 2, known] {
            watchers.push((after, world.watch(&run, after).await));
        }
        gate.open();
    }
    guide.rest().await;
    let total = guide.events.len() as u64;
    for after in [0, 1, total - 1] {
        watchers.push((after, world.watch(&run, after).await));
    }
    for (after, mut watcher) in watchers {
        watcher.rest().await;
        assert_eq!(numbers(&watcher), (after + 1..=total).collect::<Vec<_>>());
        assert!(
            watcher.bytes == world.stored(&run, after).await,
            "bytes after {after}"
        );
    }
    assert_eq!(
        world.hub.subscribers(),
        0,
        "a stream that has ended is not counted"
    );
    world.stop().await;
}

#[tokio::test]
async fn subscribers_of_a_short_run_are_served_from_memory() {
    every_subscriber_sees_the_stored_bytes(6, 10).await;
}

#[tokio::test]
async fn subscribers_of_a_long_run_are_served_from_the_store_as_well() {
    every_subscriber_sees_the_stored_bytes(8, 3_000).await;
}

#[tokio::test]
async fn a_stream_after_the_terminal_event_ends_at_once_even_while_others_watch() {
    let world = World::new().await;
    let run = world.run("hi").await;
    let mut first = world.watch(&run, 0).await;
    first.until("result").await;
    let last = first.events.len() as u64;
    for after in [last, last + 1, u64::MAX / 2] {
        let mut late = world.watch(&run, after).await;
        late.rest().await;
        assert_eq!(late.kinds(), [""; 0], "after {after}");
    }
    world.stop().await;
}

/// A process that saw the beginning of a run, and heard only from the store that another one has ended it.
#[tokio::test]
async fn whoever_misses_the_end_in_memory_reads_it_from_the_store() {
    let world = World::new().await;
    let run = world.run("hi").await;
    world.events(&run).await;
    let id = RunId::parse(&run).unwrap();
    let live = world.hub.find(&id).unwrap();
    let chunks = world.store.read_log(live.no, 0, 1).await.unwrap();
    let seen = chunks.into_iter().next().unwrap();
    assert!(!seen.terminal);
    let (elsewhere, known) = (Arc::new(Hub::default()), seen.last_seq);
    let there = elsewhere.open(&id, live.no, WorkspaceNo(1));
    there.publish(seen);
    there.set_ended();
    let shutdown = Shutdown::default();
    let store = Arc::clone(&world.store);
    let rest: Vec<_> = subscribe(&elsewhere, there, store, known, &shutdown)
        .collect()
        .await;
    assert_eq!(rest.concat(), world.stored(&run, known).await);
    world.stop().await;
}

#[tokio::test]
async fn a_stream_with_a_number_from_the_future_ends_with_the_run() {
    let world = World::new().await;
    let gate = Gate::new();
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(gate.clone())]);
    let run = world.run("hi").await;
    let mut ahead = world.watch(&run, 1_000).await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    gate.open();
    ahead.rest().await;
    assert_eq!(ahead.kinds(), [""; 0]);
    world.stop().await;
}

#[tokio::test]
async fn a_finished_run_is_replayed_and_forgotten() {
    let world = World::new().await;
    let run = world.run("hi").await;
    let events = world.events(&run).await;
    let again = world.events(&run).await;
    assert_eq!(events, again);
    world.stop().await;
    assert_eq!((world.hub.live_runs(), world.hub.subscribers()), (0, 0));
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Text("a"), Piece::Hold(Gate::new())]);
    let run = world.run("hi").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.kill().await;
    watcher.rest().await;
    assert_eq!(watcher.kinds(), ["started", "assistant_delta"]);
}
