//! Connections die in the middle of everything; nothing is lost and nothing is doubled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use runloom_ports::store::{CommitError, Lease, Next, RunFilter, Store, StoreErrorKind};
use tokio::task::JoinSet;

use crate::database::Database;
use crate::fixture::{Fixture, batch, page, run_id};

/// Commits as a driver does: the same batch again until it is written.
async fn insist(store: &dyn Store, lease: Lease, seq: u64) {
    for _ in 0..100 {
        match store.commit(lease, batch(seq, seq, Next::Keep)).await {
            Ok(_) => return,
            Err(CommitError::Store(error)) if error.kind == StoreErrorKind::Unavailable => {}
            Err(error) => panic!("event {seq}: {error:?}"),
        }
    }
    panic!("event {seq} was never written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cut_connections_lose_and_repeat_nothing() {
    const RUNS: usize = 24;
    const EVENTS: u64 = 60;
    let database = Database::create().await;
    let (url, beside) = (database.url(), database.client().await);
    let cutter = Arc::new(database);
    let fixture = Fixture::at(url, tempfile::tempdir().unwrap()).await;
    let mut leases = Vec::new();
    for index in 0..RUNS {
        leases.push(fixture.started(&format!("r{index}")).await);
    }
    let written = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for &lease in &leases {
        let (store, written) = (fixture.store(), Arc::clone(&written));
        writers.spawn(async move {
            for seq in 2..2 + EVENTS {
                insist(&*store, lease, seq).await;
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (mut cuts, mut next_cut) = (0, 10);
    loop {
        tokio::select! {
            done = writers.join_next() => match done {
                Some(done) => done.unwrap(),
                None => break,
            },
            // The cuts are spread over the writing.
            () = tokio::task::yield_now() => if written.load(Ordering::Relaxed) >= next_cut {
                next_cut = written.load(Ordering::Relaxed) + 35;
                cuts += cutter.cut(&beside).await;
            },
        }
    }
    assert!(cuts > 0, "nothing was cut");
    let expected: Vec<(u64, u64)> = (1..2 + EVENTS).map(|seq| (seq, seq)).collect();
    for lease in leases {
        assert_eq!(fixture.seqs(lease.run).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cut_connections_report_true_outcomes() {
    let database = Database::create().await;
    let (url, beside) = (database.url(), database.client().await);
    let cutter = Arc::new(database);
    let fixture = Fixture::at(url, tempfile::tempdir().unwrap()).await;
    let written = Arc::new(AtomicU64::new(0));
    let mut creators = JoinSet::new();
    for worker in 0..8 {
        let store = fixture.store();
        let runs: Vec<_> = (0..40)
            .map(|index| fixture.new_run(&format!("r{worker}x{index}")))
            .collect();
        let written = Arc::clone(&written);
        creators.spawn(async move {
            let mut said = Vec::new();
            for run in runs {
                written.fetch_add(1, Ordering::Relaxed);
                let id = run.id.clone();
                match store.create_run(run).await {
                    Ok(_) => said.push((id, true)),
                    Err(error) if error.kind == StoreErrorKind::Unavailable => {
                        said.push((id, false));
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
            said
        });
    }
    let mut said = Vec::new();
    let mut next_cut = 10;
    loop {
        tokio::select! {
            done = creators.join_next() => match done {
                Some(done) => said.extend(done.unwrap()),
                None => break,
            },
            // The cuts are spread over the writing.
            () = tokio::task::yield_now() => if written.load(Ordering::Relaxed) >= next_cut {
                next_cut = written.load(Ordering::Relaxed) + 10;
                cutter.cut(&beside).await;
            },
        }
    }
    let filter = RunFilter::default();
    let listed = fixture
        .store()
        .list_runs(fixture.acme, &filter, page(1_000))
        .await
        .unwrap();
    let there: BTreeSet<String> = listed.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(there.len(), listed.len(), "no run twice");
    for (id, created) in said {
        assert_eq!(there.contains(&id.to_string()), created, "{id}");
    }
    assert!(
        fixture
            .store()
            .run(fixture.acme, &run_id("r0x0"))
            .await
            .is_ok()
    );
}
