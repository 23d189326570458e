//! Claims: who may take a run, and when.

use runloom_ports::store::{
    Census, ClaimOutcome, Claimable, Lease, Millis, Next, RunNo, WorkspaceNo,
};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW, WORKER, batch, run_id};

fn later(ms: i64) -> Millis {
    Millis(NOW.0 + ms)
}

pub(crate) async fn a_claim_carries_what_a_worker_needs(fixture: Fixture) {
    let run = fixture.queued("a").await;
    let claim = fixture.try_claim(run, later(5)).await.unwrap();
    assert_eq!(claim.lease.run, run);
    assert_eq!(claim.lease.epoch, 1);
    assert_eq!(claim.id, run_id("a"));
    assert_eq!(claim.workspace, fixture.acme);
    assert!(!claim.in_session);
    assert_eq!(claim.spec, "{\"secret\":\"a\"}");
    assert!(claim.log.is_empty() && claim.mail.is_empty() && claim.history.is_empty());
    assert_eq!(claim.attempts, 1);
    assert_eq!(claim.created_at, NOW);
    assert_eq!(claim.started_at, later(5));
    let row = fixture.row("a").await;
    assert_eq!(row.status, RunStatus::Running);
    assert_eq!(row.started_at, Some(later(5)));
}

pub(crate) async fn a_held_run_cannot_be_claimed(fixture: Fixture) {
    let run = fixture.queued("a").await;
    fixture.claim(run).await;
    assert!(fixture.try_claim(run, NOW).await.is_none());
    assert!(fixture.claimable(NOW).await.is_empty());
}

pub(crate) async fn a_run_that_is_over_cannot_be_claimed(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.finish(lease, 2, RunStatus::Succeeded).await;
    assert!(fixture.try_claim(lease.run, NOW).await.is_none());
    assert!(fixture.claimable(NOW).await.is_empty());
}

pub(crate) async fn a_silent_workers_run_can_be_claimed(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let store = fixture.store();
    store.heartbeat(WORKER, later(50_000)).await.unwrap();
    assert!(fixture.claimable(later(100_000)).await.is_empty());
    let hour = fixture.after_long_silence().await;
    assert_eq!(fixture.claimable(hour).await, [lease.run]);
    let ClaimOutcome::Claimed(claim) = store.claim(lease.run, "other", hour, 1).await.unwrap()
    else {
        panic!("a dead worker holds nothing");
    };
    assert_eq!(claim.lease.epoch, lease.epoch + 1);
    assert!(claim.taken_over);
    let late = fixture.try_commit(lease, batch(2, 2, Next::Keep)).await;
    assert!(late.is_err(), "the old owner is fenced");
}

pub(crate) async fn every_claim_raises_the_epoch_and_counts_an_attempt(mut fixture: Fixture) {
    let run = fixture.queued("a").await;
    for nth in 1..=3 {
        let claim = fixture.claim(run).await;
        assert_eq!(claim.lease.epoch, nth);
        assert_eq!(u64::from(claim.attempts), nth);
        fixture.reopen().await;
    }
}

pub(crate) async fn progress_and_nothing_else_that_is_written_resets_the_attempts(
    mut fixture: Fixture,
) {
    let run = fixture.queued("a").await;
    fixture.claim(run).await;
    for (seq, progress, attempts) in [(1, false, 2), (2, false, 3), (3, true, 4), (4, true, 1)] {
        fixture.reopen().await;
        let claim = fixture.claim(run).await;
        assert_eq!(claim.attempts, attempts);
        let mut written = batch(seq, seq, Next::Keep);
        written.progress = progress;
        fixture.commit(claim.lease, written).await;
    }
}

pub(crate) async fn a_run_that_was_tried_too_often_is_refused_and_not_counted(
    mut fixture: Fixture,
) {
    let run = fixture.queued("a").await;
    for _ in 0..2 {
        fixture.claim(run).await;
        fixture.reopen().await;
    }
    let store = fixture.store();
    for _ in 0..3 {
        let refused = store.claim(run, WORKER, NOW, 2).await.unwrap();
        assert!(matches!(refused, ClaimOutcome::NotNow));
    }
    assert_eq!(fixture.claimable(NOW).await, [run]);
    let taken = store.claim(run, WORKER, NOW, 3).await.unwrap();
    assert!(matches!(taken, ClaimOutcome::Claimed(claim) if claim.attempts == 3));
}

pub(crate) async fn a_new_process_takes_over_from_a_dead_one(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.reopen().await;
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
    let claim = fixture.claim(lease.run).await;
    let stale = fixture.try_commit(lease, batch(2, 2, Next::Keep)).await;
    assert!(stale.is_err(), "the lease of the old process is void");
    assert_eq!(claim.lease.epoch, lease.epoch + 1);
    assert_eq!(claim.log.len(), 1);
    assert_eq!(claim.started_at, NOW);
}

pub(crate) async fn a_parked_run_is_claimed_only_when_its_timer_is_due(fixture: Fixture) {
    let until = later(100);
    for (name, next) in [
        (
            "a",
            Next::Park {
                wake_at: Some(until),
            },
        ),
        ("b", Next::Defer { until }),
    ] {
        let lease = fixture.started(name).await;
        fixture.commit(lease, batch(2, 2, next)).await;
        assert!(fixture.try_claim(lease.run, later(99)).await.is_none());
        assert!(fixture.claimable(later(99)).await.is_empty());
        assert_eq!(fixture.store().next_timer().await.unwrap(), Some(until));
        assert_eq!(fixture.claimable(until).await, [lease.run]);
        assert!(fixture.try_claim(lease.run, until).await.is_some());
        let timer = fixture.store().next_timer().await.unwrap();
        assert_eq!(timer, None, "a claimed run is not parked");
    }
}

pub(crate) async fn a_released_run_is_claimable_at_once(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Release)).await;
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
    assert_eq!(fixture.claim(lease.run).await.lease.epoch, 2);
}

pub(crate) async fn only_a_lease_given_back_in_order_is_no_attempt(fixture: Fixture) {
    let mut lease = fixture.started("a").await;
    for (next, attempts) in [
        (Next::Return, 1),
        (Next::Return, 2),
        (Next::Release, 2),
        (Next::Return, 3),
        (Next::Defer { until: NOW }, 3),
        (Next::Park { wake_at: Some(NOW) }, 1),
    ] {
        leave(&fixture, lease, next).await;
        let claim = fixture.claim(lease.run).await;
        assert_eq!(claim.attempts, attempts);
        lease = claim.lease;
    }
}

/// Gives a lease back with nothing written.
async fn leave(fixture: &Fixture, lease: Lease, next: Next) {
    let mut nothing = batch(2, 1, next);
    nothing.chunk.frames = bytes::Bytes::new();
    nothing.progress = false;
    fixture.commit(lease, nothing).await;
}

pub(crate) async fn the_next_timer_is_the_earliest(fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.next_timer().await.unwrap(), None);
    for (name, wake_at) in [
        ("a", Some(later(300))),
        ("b", Some(later(200))),
        ("c", None),
    ] {
        let lease = fixture.started(name).await;
        fixture
            .commit(lease, batch(2, 2, Next::Park { wake_at }))
            .await;
    }
    assert_eq!(store.next_timer().await.unwrap(), Some(later(200)));
}

pub(crate) async fn claimable_lists_oldest_first_and_no_more_than_asked(fixture: Fixture) {
    let parked = fixture.started("a").await;
    let wake_at = Some(NOW);
    fixture
        .commit(parked, batch(2, 2, Next::Park { wake_at }))
        .await;
    let second = fixture.queued("b").await;
    let third = fixture.queued("c").await;
    assert_eq!(fixture.claimable(NOW).await, [parked.run, second, third]);
    let two = fixture.store().claimable(NOW, 2, 2).await.unwrap();
    let acme = fixture.acme;
    assert_eq!(owners(&two), [(parked.run, acme), (second, acme)]);
}

fn owners(found: &[Claimable]) -> Vec<(RunNo, WorkspaceNo)> {
    found.iter().map(|one| (one.run, one.workspace)).collect()
}

pub(crate) async fn runs_that_were_tried_often_and_the_others_do_not_hide_each_other(
    fixture: Fixture,
) {
    let mut often = Vec::new();
    for number in 0..5 {
        let run = fixture.queued(&format!("often{number}")).await;
        for _ in 0..2 {
            leave(&fixture, fixture.claim(run).await.lease, Next::Return).await;
        }
        often.push(run);
    }
    let mut fresh = Vec::new();
    for number in 0..5 {
        fresh.push(fixture.queued(&format!("fresh{number}")).await);
    }
    let found = fixture.store().claimable(NOW, 2, 4).await.unwrap();
    let found: Vec<(RunNo, u32)> = found.iter().map(|one| (one.run, one.attempts)).collect();
    let expected = [(often[0], 2), (fresh[0], 0), (often[1], 2), (fresh[1], 0)];
    assert_eq!(found, expected);
}

pub(crate) async fn a_workspace_with_many_runs_does_not_hide_the_others(fixture: Fixture) {
    let mut many = Vec::new();
    for number in 0..20 {
        many.push(fixture.queued(&format!("many{number}")).await);
    }
    let mut late = fixture.new_run("late");
    late.workspace = fixture.rival;
    let late = fixture.create(late).await;
    let found = fixture.store().claimable(NOW, 2, 4).await.unwrap();
    let (acme, rival) = (fixture.acme, fixture.rival);
    let expected = [
        (many[0], acme),
        (late, rival),
        (many[1], acme),
        (many[2], acme),
    ];
    assert_eq!(owners(&found), expected);
}

pub(crate) async fn parked_and_orphaned_runs_take_turns_with_queued_ones(fixture: Fixture) {
    let orphan = fixture.started("orphan").await;
    let parked = fixture.started("parked").await;
    let wake_at = Some(NOW);
    fixture
        .commit(parked, batch(2, 2, Next::Park { wake_at }))
        .await;
    let queued = fixture.queued("queued").await;
    let mut other = fixture.new_run("other");
    other.workspace = fixture.rival;
    let other = fixture.create(other).await;
    let later = fixture.after_long_silence().await;
    let found = fixture.claimable(later).await;
    assert_eq!(found, [orphan.run, other, parked.run, queued]);
}

pub(crate) async fn the_backlog_is_what_waits_for_its_first_worker(fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.backlog().await.unwrap(), []);
    fixture.started("held").await;
    let parked = fixture.started("parked").await;
    let wake_at = Some(later(100));
    fixture
        .commit(parked, batch(2, 2, Next::Park { wake_at }))
        .await;
    fixture.session("talk").await;
    for name in ["first", "behind"] {
        fixture.message("talk", name).await;
    }
    let mut other = fixture.new_run("other");
    other.workspace = fixture.rival;
    fixture.create(other).await;
    let mut backlog = store.backlog().await.unwrap();
    backlog.sort_unstable();
    let mut expected = vec![(fixture.acme, 2), (fixture.rival, 1)];
    expected.sort_unstable();
    assert_eq!(backlog, expected);
    let census = Census {
        waiting: 3,
        held: 1,
        parked: 1,
    };
    assert_eq!(store.census().await.unwrap(), census);
}

pub(crate) async fn an_unknown_run_is_not_to_be_had(fixture: Fixture) {
    assert!(fixture.try_claim(RunNo(4_711), NOW).await.is_none());
}
