//! The process dies at a commit: what was acknowledged is there, what was not committed is not.
//!
//! Each test starts this very test once more as a child that crashes at the named point, then looks at what it left.

use std::process::Command;

use runloom_ports::store::{ClaimOutcome, Millis, Next, RunFilter, Store};
use runloom_protocol::resource::RunStatus;
use runloom_store::{OpenOptions, open};

use crate::fixture::{Fixture, NOW, Place, batch, ending, finishing, page, put_workspace};
use crate::ground;

const URL: &str = "RUNLOOM_TEST_CRASH_URL";

/// What the parent finds: the run's status, its log's last number, and whether it can be claimed.
#[derive(Debug, PartialEq)]
struct Left {
    status: RunStatus,
    last_seq: u64,
    claimable: bool,
}

#[tokio::test]
async fn crash_before_creating_leaves_no_run() {
    let left = crash(
        "crash_before_creating_leaves_no_run",
        "before_commit.create_run",
    );
    assert_eq!(left.await, None);
}

#[tokio::test]
async fn crash_after_creating_leaves_the_run() {
    let left = crash(
        "crash_after_creating_leaves_the_run",
        "after_commit.create_run",
    );
    assert_eq!(left.await, Some(live(1)));
}

#[tokio::test]
async fn crash_before_a_commit_leaves_earlier_events() {
    let left = crash(
        "crash_before_a_commit_leaves_earlier_events",
        "before_commit.append:2",
    );
    assert_eq!(left.await, Some(live(2)));
}

#[tokio::test]
async fn crash_after_a_commit_leaves_the_events() {
    let left = crash(
        "crash_after_a_commit_leaves_the_events",
        "after_commit.append:2",
    );
    assert_eq!(left.await, Some(live(3)));
}

#[tokio::test]
async fn crash_before_the_end_leaves_a_live_run() {
    let left = crash(
        "crash_before_the_end_leaves_a_live_run",
        "before_commit.finish",
    );
    assert_eq!(left.await, Some(live(3)));
}

#[tokio::test]
async fn crash_after_the_end_leaves_an_ended_run() {
    let left = crash(
        "crash_after_the_end_leaves_an_ended_run",
        "after_commit.finish",
    );
    let ended = Left {
        status: RunStatus::Succeeded,
        last_seq: 4,
        claimable: false,
    };
    assert_eq!(left.await, Some(ended));
}

fn live(last_seq: u64) -> Left {
    Left {
        status: RunStatus::Running,
        last_seq,
        claimable: true,
    }
}

/// In the parent: what the child left behind. In the child: never comes back.
async fn crash(test: &str, point: &str) -> Option<Left> {
    if let Ok(url) = std::env::var(URL) {
        one_run(url).await;
        panic!("passed {point} alive");
    }
    let (url, place) = ground().await;
    let store = open(&url, OpenOptions::default()).await.unwrap();
    put_workspace(&*store, "acme").await;
    drop(store);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("crash::{test}")])
        .env(URL, &url)
        .env(runloom_ports::crash::VARIABLE, point)
        .output()
        .unwrap();
    assert!(child.status.code().is_none(), "not killed: {child:?}");
    place.silence_workers().await;
    let store = open(&url, OpenOptions::default()).await.unwrap();
    let health = runloom_store::check(&url).await.unwrap();
    assert!(health.is_good(), "{health:?}");
    look(&*store).await
}

/// One run from its start to its end: events 1, 2, 3 and the terminal 4.
async fn one_run(url: String) {
    let fixture = Fixture::at(url, tempfile::tempdir().unwrap()).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    let end = finishing(4, ending(RunStatus::Succeeded));
    fixture.commit(lease, end).await;
}

async fn look(store: &dyn Store) -> Option<Left> {
    let workspace = store.workspace("acme").await.unwrap().unwrap().no;
    let filter = RunFilter::default();
    let runs = store.list_runs(workspace, &filter, page(2)).await.unwrap();
    assert!(runs.len() <= 1);
    let row = runs.first()?;
    let log = store.read_log(row.no, 0, usize::MAX).await.unwrap();
    let seqs: Vec<u64> = log.iter().map(|chunk| chunk.first_seq).collect();
    let last_seq = seqs.len() as u64;
    assert_eq!(seqs, (1..=last_seq).collect::<Vec<_>>(), "gapless");
    let claim = store
        .claim(row.no, "next", Millis(NOW.0 + 1), u32::MAX)
        .await;
    Some(Left {
        status: row.status,
        last_seq,
        claimable: matches!(claim.unwrap(), ClaimOutcome::Claimed(_)),
    })
}
