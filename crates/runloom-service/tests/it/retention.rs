//! What is past its retention goes, however much of it there is.

use std::time::Duration;

use runloom_ports::store::{Millis, NewSession, RunFilter, SessionFilter};
use runloom_protocol::id::SessionId;
use runloom_protocol::spec::Metadata;

use crate::scripted::Piece;
use crate::world::{World, settings, soon};

/// More than several pages of a purge.
const MANY: usize = 350;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A session of long ago.
async fn old_session(world: &World, name: &str) -> SessionId {
    let id = SessionId::from_suffix(name);
    let session = NewSession {
        private_to: None,
        id: id.clone(),
        workspace: world.caller.workspace.no,
        name: None,
        spec: "{}".to_owned(),
        public_spec: "{}".to_owned(),
        metadata: Metadata::new(),
        created_at: Millis(1),
        idempotency: None,
    };
    world.store.create_session(session).await.unwrap();
    id
}

/// Waits until this number of sessions is left.
async fn left(world: &World, sessions: u64) {
    let (workspace, all) = (world.caller.workspace.no, SessionFilter::default());
    soon(async {
        while world.store.count_sessions(workspace, &all).await.unwrap() != sessions {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn all_that_is_old_goes_at_once_and_not_a_page_a_minute() {
    let world = World::new().await;
    for n in 0..MANY {
        let session = old_session(&world, &format!("s{n}")).await;
        let workspace = world.caller.workspace.no;
        let ended = world.store.end_session(workspace, &session, Millis(2));
        ended.await.unwrap();
    }
    old_session(&world, "active").await;
    let mut forgetful = settings();
    forgetful.retention = Some(DAY);
    let peer = world.peer_set(forgetful);
    left(&world, 1).await;
    peer.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn sessions_that_nobody_uses_go_and_runs_stay_as_long_as_they_may() {
    let world = World::new().await;
    for n in 0..MANY {
        old_session(&world, &format!("s{n}")).await;
    }
    world.model.script([Piece::Text("1")]);
    let used = world.session().await;
    let run = world.message(&used, "one").await;
    world.events(&run).await;
    let mut forgetful = settings();
    forgetful.session_retention = Some(DAY);
    let peer = world.peer_set(forgetful);
    left(&world, 1).await;
    assert_eq!(world.history(&used).await.len(), 2);
    let (workspace, all) = (world.caller.workspace.no, RunFilter::default());
    assert_eq!(world.store.count_runs(workspace, &all).await.unwrap(), 1);
    peer.stop().await;
    world.stop().await;
}
