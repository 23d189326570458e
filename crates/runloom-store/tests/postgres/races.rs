//! Several processes on one database: claims, fences, keys and sessions under contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use runloom_ports::store::{
    ClaimOutcome, CommitError, Created, Lease, Next, RunNo, Store, ToolDelivery,
};
use runloom_protocol::resource::RunStatus;
use runloom_store::{OpenOptions, open};
use tokio::task::JoinSet;

use crate::database::Database;
use crate::fixture::{
    Fixture, NOW, answer, batch, ending, finishing, key, open_call, page, run_id, start,
};

async fn two() -> (Fixture, Arc<dyn Store>, String) {
    let database = Database::create().await;
    let url = database.url();
    let fixture = Fixture::at(url.clone(), database).await;
    let other = open(&url, OpenOptions::default()).await.unwrap();
    (fixture, other, url)
}

async fn claim(store: &dyn Store, run: RunNo, worker: &str) -> Option<Lease> {
    match store.claim(run, worker, NOW, u32::MAX).await.unwrap() {
        ClaimOutcome::Claimed(claim) => Some(claim.lease),
        ClaimOutcome::NotNow => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_have_one_winner() {
    let (fixture, other, _) = two().await;
    for round in 0..50 {
        let run = fixture.queued(&format!("r{round}")).await;
        let store = fixture.store();
        let (left, right) = tokio::join!(claim(&*store, run, "left"), claim(&*other, run, "right"));
        assert!(
            left.is_some() != right.is_some(),
            "round {round}: {left:?} {right:?}"
        );
    }
}

/// Two workers fight for one run: each takes it over as soon as the other seems dead and appends what it believes to
/// be next.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fenced_workers_never_write() {
    let database = Database::create().await;
    let hasty = OpenOptions {
        // Everybody always looks dead, so every claim succeeds and fences the other in the middle of its work.
        worker_silence_ms: Some(-60_000),
        ..OpenOptions::default()
    };
    let url = database.url();
    let fixture = Fixture::at(url.clone(), database).await;
    let run = fixture.queued("a").await;
    let stores = [
        open(&url, hasty).await.unwrap(),
        open(&url, hasty).await.unwrap(),
    ];
    let fences = Arc::new(AtomicU64::new(0));
    let mut fighting = JoinSet::new();
    for (index, store) in stores.into_iter().enumerate() {
        let fences = Arc::clone(&fences);
        fighting.spawn(async move {
            let worker = format!("worker-{index}");
            let mut written = 0;
            for _ in 0..60 {
                let claimed = store.claim(run, &worker, NOW, u32::MAX).await.unwrap();
                let ClaimOutcome::Claimed(claim) = claimed else {
                    continue;
                };
                let mut seq = claim.log.last().map_or(0, |entry| entry.chunk.last_seq);
                for _ in 0..5 {
                    match store
                        .commit(claim.lease, batch(seq + 1, seq + 1, Next::Keep))
                        .await
                    {
                        Ok(_) => {
                            seq += 1;
                            written += 1;
                        }
                        Err(CommitError::Fenced) => {
                            fences.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            written
        });
    }
    let mut written = 0;
    while let Some(count) = fighting.join_next().await {
        written += count.unwrap();
    }
    let seqs = fixture.seqs(run).await;
    let expected: Vec<(u64, u64)> = (1..=written).map(|seq| (seq, seq)).collect();
    assert_eq!(
        seqs, expected,
        "every acknowledged event, once, and no other"
    );
    assert!(written > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn refusals_affect_single_batches() {
    let (fixture, other, _) = two().await;
    let mut leases = Vec::new();
    for index in 0..40 {
        leases.push(fixture.started(&format!("r{index}")).await);
    }
    let store = fixture.store();
    // Every fourth run has mail, every fourth has another owner.
    for (index, lease) in leases.iter().enumerate() {
        match index % 4 {
            1 => {
                let mut opening = batch(2, 2, Next::Keep);
                opening.opened = vec![open_call("call")];
                fixture.commit(*lease, opening).await;
                fixture.answer(&format!("r{index}"), "call").await;
            }
            2 => {
                fixture.commit(*lease, batch(2, 2, Next::Release)).await;
                claim(&*other, lease.run, "thief").await.unwrap();
            }
            _ => {
                fixture.commit(*lease, batch(2, 2, Next::Keep)).await;
            }
        }
    }
    let mut commits = JoinSet::new();
    for (index, lease) in leases.into_iter().enumerate() {
        let store = Arc::clone(&store);
        commits.spawn(async move {
            let mut third = batch(3, 3, Next::Keep);
            third.unless_mail = true;
            (index, lease, store.commit(lease, third).await)
        });
    }
    while let Some(done) = commits.join_next().await {
        let (index, lease, outcome) = done.unwrap();
        let written = fixture.seqs(lease.run).await.len();
        match index % 4 {
            1 => assert!(
                matches!(outcome, Err(CommitError::MailWaiting)),
                "{outcome:?}"
            ),
            2 => assert!(matches!(outcome, Err(CommitError::Fenced)), "{outcome:?}"),
            _ => assert!(outcome.is_ok(), "{outcome:?}"),
        }
        assert_eq!(written, if outcome.is_ok() { 3 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_idempotency_keys_make_one_run() {
    let (fixture, other, _) = two().await;
    for round in 0..30 {
        let with_key = |name: String| {
            let mut run = fixture.new_run(&name);
            run.idempotency = Some(key(&format!("create:{round}"), 1));
            run
        };
        let store = fixture.store();
        let (left, right) = tokio::join!(
            store.create_run(with_key(format!("l{round}"))),
            other.create_run(with_key(format!("r{round}")))
        );
        let new = |created: &Created| matches!(created, Created::New { .. });
        let (left, right) = (left.unwrap(), right.unwrap());
        assert!(new(&left) != new(&right), "{left:?} {right:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_results_count_once() {
    let (fixture, other, _) = two().await;
    for round in 0..30 {
        let name = format!("r{round}");
        let lease = fixture.started(&name).await;
        fixture.park_with_call(lease, 2, "call").await;
        let deliver = async |store: &dyn Store| {
            store
                .deliver_tool_result(fixture.acme, &run_id(&name), &answer("call"), None, NOW)
                .await
                .unwrap()
        };
        let store = fixture.store();
        let (left, right) = tokio::join!(deliver(&*store), deliver(&*other));
        let accepted = |said: &ToolDelivery| matches!(said, ToolDelivery::Accepted(_));
        assert!(accepted(&left) != accepted(&right), "{left:?} {right:?}");
        let claim = fixture.claim(lease.run).await;
        assert_eq!(claim.mail.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mail_during_parking_wakes_the_run() {
    let (fixture, other, _) = two().await;
    for round in 0..40 {
        let name = format!("r{round}");
        let lease = fixture.started(&name).await;
        let store = fixture.store();
        let park = store.commit(lease, batch(2, 2, Next::Park { wake_at: None }));
        let id = run_id(&name);
        let cancel = other.cancel_run(fixture.acme, &id, "user", NOW);
        let (parked, cancelled) = tokio::join!(park, cancel);
        parked.unwrap();
        cancelled.unwrap();
        let claim = fixture.claim(lease.run).await;
        assert_eq!(claim.mail.len(), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_ends_do_not_deadlock() {
    let (fixture, other, _) = two().await;
    for round in 0..30 {
        let session = format!("s{round}");
        fixture.session(&session).await;
        let mut run = fixture.new_run(&format!("r{round}"));
        run.session = Some(crate::fixture::session_id(&session));
        run.start = Some(start());
        let Created::New {
            lease: Some(lease), ..
        } = fixture.store().create_run(run).await.unwrap()
        else {
            panic!("not started");
        };
        fixture.message(&session, &format!("next{round}")).await;
        let store = fixture.store();
        let finish = store.commit(lease, finishing(2, ending(RunStatus::Succeeded)));
        let id = crate::fixture::session_id(&session);
        let end = other.end_session(fixture.acme, &id, NOW);
        let (finished, ended) = tokio::join!(finish, end);
        finished.unwrap();
        ended.unwrap();
    }
    let filter = runloom_ports::store::RunFilter {
        status: Some(RunStatus::Succeeded),
        ..Default::default()
    };
    let store = fixture.store();
    let done = store.list_runs(fixture.acme, &filter, page(100));
    assert_eq!(done.await.unwrap().len(), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn finds_runs_of_a_dead_process() {
    let database = Database::create().await;
    let url = database.url();
    let dying = open(&url, OpenOptions::default()).await.unwrap();
    let beside = database.client().await;
    let fixture = Fixture::at(url, database).await;
    let run = fixture.queued("a").await;
    let old = claim(&*dying, run, "dying").await.unwrap();
    dying.commit(old, batch(1, 1, Next::Keep)).await.unwrap();
    fixture.store().heartbeat("living", NOW).await.unwrap();
    assert!(fixture.claimable(NOW).await.is_empty(), "it lives");
    let aged =
        "UPDATE workers SET heartbeat_at = heartbeat_at - INTERVAL '9 seconds' WHERE id = 'dying'";
    beside.batch_execute(aged).await.unwrap();
    assert_eq!(fixture.claimable(NOW).await, [run]);
    let new = claim(&*fixture.store(), run, "living").await.unwrap();
    let late = dying.commit(old, batch(2, 2, Next::Keep)).await;
    assert!(matches!(late, Err(CommitError::Fenced)), "{late:?}");
    fixture.commit(new, batch(2, 2, Next::Keep)).await;
    assert_eq!(fixture.seqs(run).await, [(1, 1), (2, 2)]);
}
