//! What one answer holds is bounded in bytes, and it says when there is more.

use bytes::Bytes;
use runloom_protocol::resource::SessionEvents;
use runloom_service::SessionEventsRequest;

use crate::scripted::Piece;
use crate::world::World;

const MIB: usize = 1024 * 1024;
/// What one answer holds.
const PAGE: usize = 8 * MIB;

#[tokio::test]
async fn a_page_of_events_is_bounded_in_bytes_and_the_next_goes_on_behind_it() {
    let world = World::new().await;
    world.model.script([Piece::Long(3 * MIB)]);
    let run = world.run("tell").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.rest().await;
    let total = watcher.events.len();
    let (mut read, mut pages): (Vec<Bytes>, _) = (Vec::new(), 0);
    loop {
        let page = world.page_of_events(&run, read.len() as u64, 1_000).await;
        let bytes: usize = page.frames.iter().map(Bytes::len).sum();
        assert!(bytes <= PAGE, "{bytes}");
        assert!(!page.frames.is_empty());
        read.extend(page.frames);
        pages += 1;
        assert_eq!(page.truncated, read.len() < total);
        if !page.truncated {
            break;
        }
    }
    assert!(pages > 1, "the test is about more than one page");
    assert!(
        read.concat() == watcher.bytes,
        "nothing twice, nothing missing"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_event_larger_than_a_page_is_a_page_of_its_own() {
    let world = World::new().await;
    // A frame has its text twice.
    world.model.script([Piece::Long(5 * MIB)]);
    let run = world.run("tell").await;
    let total = world.events(&run).await.len() as u64;
    let last = world.page_of_events(&run, total - 1, 1_000).await;
    assert_eq!((last.frames.len(), last.truncated), (1, false));
    assert!(last.frames[0].len() > PAGE);
    let before = world.page_of_events(&run, total - 2, 1_000).await;
    assert_eq!((before.frames.len(), before.truncated), (1, true));
    world.stop().await;
}

#[tokio::test]
async fn a_page_that_ends_with_the_log_is_not_truncated() {
    let world = World::new().await;
    let run = world.run("tell").await;
    let total = world.events(&run).await.len();
    let all = world.page_of_events(&run, 0, total).await;
    assert_eq!((all.frames.len(), all.truncated), (total, false));
    let some = world.page_of_events(&run, 0, total - 1).await;
    assert_eq!((some.frames.len(), some.truncated), (total - 1, true));
    world.stop().await;
}

async fn page(world: &World, session: &str, before_seq: Option<u64>) -> SessionEvents {
    let request = SessionEventsRequest {
        full: before_seq.is_none(),
        last_messages: None,
        before_seq,
    };
    let events = world
        .service
        .sessions()
        .events(&world.caller, session, request);
    events.await.unwrap()
}

#[tokio::test]
async fn snapshots_and_pages_of_a_session_are_bounded_in_bytes_and_say_so() {
    let world = World::new().await;
    let session = world.session().await;
    for (question, truncated) in [("one", false), ("two", true), ("three", true)] {
        world.model.script([Piece::Long(5 * MIB)]);
        let run = world.message(&session, question).await;
        world.events(&run).await;
        let snapshot = world
            .service
            .sessions()
            .snapshot(&world.caller, &session)
            .await;
        let snapshot = snapshot.unwrap();
        assert_eq!(snapshot.messages.len(), 2);
        assert_eq!(snapshot.messages[0].content, question);
        assert_eq!(snapshot.truncated, truncated);
    }
    let mut before = None;
    for (first, more) in [(5, true), (3, true), (1, false)] {
        let events = page(&world, &session, before).await;
        let seqs: Vec<u64> = events.events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, [first, first + 1]);
        assert_eq!((events.total, events.truncated), (6, more));
        assert_eq!(events.next_before_seq, more.then_some(first));
        before = events.next_before_seq;
    }
    world.stop().await;
}
