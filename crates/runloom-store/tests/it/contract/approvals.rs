//! Approvals: opened with their event, decided once, found in the inbox, ended with their run.

use runloom_ports::store::{
    ApprovalFilter, DecisionDelivery, Delivery, MailBody, MailNo, Millis, NewApproval, Next,
    PutDecision,
};
use runloom_protocol::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, DeciderKind, Ruling};
use runloom_protocol::event::ApprovalRequested;
use runloom_protocol::id::ApprovalId;
use runloom_protocol::policy::{Approver, CallEffect};
use runloom_protocol::resource::RunStatus;
use serde_json::json;

use crate::fixture::{Fixture, NOW, batch, key, page, run_id};

fn approval(name: &str) -> ApprovalId {
    ApprovalId::from_suffix(name)
}

fn new_approval(run: &str, name: &str) -> NewApproval {
    NewApproval {
        request: ApprovalRequested {
            approval_id: approval(name),
            run_id: run_id(run),
            depth: 0,
            tool_use_id: format!("tu_{name}"),
            name: "write".to_owned(),
            input: json!({"path": "a\u{0}.txt"}),
            effect: CallEffect::Once,
            annotations: None,
            rule: Some("writes".to_owned()),
            reason: None,
            sub_actions: Vec::new(),
            expires_at: "later".to_owned(),
        },
        expires_at: Millis(NOW.0 + 1_000),
        approver: Approver::Any,
        checks: "null".to_owned(),
    }
}

fn ruling(decision: ApprovalVerdict) -> Ruling {
    Ruling {
        decision,
        input: None,
        sub_decisions: Vec::new(),
        note: Some("why".to_owned()),
    }
}

fn deciding(fixture: &Fixture, run: &str, name: &str, decision: ApprovalVerdict) -> PutDecision {
    PutDecision {
        workspace: fixture.acme,
        run: run_id(run),
        approval: approval(name),
        ruling: ruling(decision),
        by: DecidedBy {
            kind: DeciderKind::Key,
            id: Some("key_other".to_owned()),
        },
        idempotency: None,
        now: NOW,
    }
}

async fn decide(fixture: &Fixture, decision: PutDecision) -> DecisionDelivery {
    fixture.store().decide_approval(decision).await.unwrap()
}

/// Starts a run that asks for an approval and is parked.
async fn asked(
    fixture: &Fixture,
    run: &str,
    change: impl FnOnce(&mut NewApproval),
) -> runloom_ports::store::Lease {
    let lease = fixture.started(run).await;
    let mut new = new_approval(run, run);
    change(&mut new);
    let mut opening = batch(2, 2, Next::Keep);
    opening.approvals = vec![new];
    opening.status = Some(RunStatus::WaitingApproval);
    fixture.commit(lease, opening).await;
    fixture
        .commit(
            lease,
            batch(
                3,
                3,
                Next::Park {
                    wake_at: Some(Millis(NOW.0 + 1_000)),
                },
            ),
        )
        .await;
    lease
}

async fn status(fixture: &Fixture, name: &str) -> ApprovalStatus {
    let found = fixture
        .store()
        .approval(fixture.acme, &approval(name))
        .await;
    found.unwrap().unwrap().status
}

pub(crate) async fn a_decision_wakes_the_run_and_is_kept(fixture: Fixture) {
    let lease = asked(&fixture, "a", |_| {}).await;
    let row = fixture.store().approval(fixture.acme, &approval("a")).await;
    let row = row.unwrap().unwrap();
    assert_eq!(row.request, new_approval("a", "a").request);
    assert_eq!(
        (row.status, &row.decision, &row.root),
        (ApprovalStatus::Pending, &None, &run_id("a"))
    );
    assert!(fixture.claimable(NOW).await.is_empty());
    let decision = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    let DecisionDelivery::Accepted(delivery, row) = decide(&fixture, decision.clone()).await else {
        panic!("refused");
    };
    assert_eq!(delivery, Delivery::Queue(lease.run));
    assert_eq!(row.status, ApprovalStatus::Approved);
    let decided = row.decision.unwrap();
    assert_eq!(
        (decided.ruling, decided.by, decided.at),
        (decision.ruling.clone(), decision.by.clone(), NOW)
    );
    let mail = fixture
        .store()
        .mail(lease.run, MailNo::default())
        .await
        .unwrap();
    let expected = MailBody::Approval {
        approval: approval("a"),
        ruling: decision.ruling,
        by: decision.by,
    };
    assert_eq!(mail.len(), 1);
    assert_eq!(mail[0].body, expected);
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
}

pub(crate) async fn an_approval_is_decided_once(fixture: Fixture) {
    let lease = asked(&fixture, "a", |_| {}).await;
    let first = deciding(&fixture, "a", "a", ApprovalVerdict::Deny);
    assert!(matches!(
        decide(&fixture, first.clone()).await,
        DecisionDelivery::Accepted(..)
    ));
    let mut again = first.clone();
    again.ruling.note = None;
    assert!(matches!(
        decide(&fixture, again).await,
        DecisionDelivery::Same(_)
    ));
    let other = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    let DecisionDelivery::Decided(row) = decide(&fixture, other).await else {
        panic!("a second decision");
    };
    assert_eq!(row.status, ApprovalStatus::Denied);
    let mail = fixture
        .store()
        .mail(lease.run, MailNo::default())
        .await
        .unwrap();
    assert_eq!(mail.len(), 1);
}

pub(crate) async fn of_two_deciders_at_once_one_wins(fixture: Fixture) {
    let lease = asked(&fixture, "a", |_| {}).await;
    let decisions = [ApprovalVerdict::Approve, ApprovalVerdict::Deny].repeat(4);
    let store = fixture.store();
    let racing = decisions.iter().map(|verdict| {
        let store = store.clone();
        let decision = deciding(&fixture, "a", "a", *verdict);
        async move { store.decide_approval(decision).await.unwrap() }
    });
    let outcomes = futures_util::future::join_all(racing).await;
    let accepted = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, DecisionDelivery::Accepted(..)));
    assert_eq!(accepted.count(), 1, "{outcomes:?}");
    let mail = fixture
        .store()
        .mail(lease.run, MailNo::default())
        .await
        .unwrap();
    assert_eq!(mail.len(), 1);
}

pub(crate) async fn what_has_expired_is_not_decided_any_more(fixture: Fixture) {
    asked(&fixture, "a", |_| {}).await;
    let mut late = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    late.now = Millis(NOW.0 + 1_000);
    let DecisionDelivery::Decided(row) = decide(&fixture, late).await else {
        panic!("decided too late");
    };
    assert_eq!(row.status, ApprovalStatus::Expired);
    let decided = row.decision.unwrap();
    assert_eq!(
        (decided.by, decided.at),
        (DecidedBy::timeout(), row.expires_at)
    );
    let lease = asked(&fixture, "b", |_| {}).await;
    let claim = fixture
        .try_claim(lease.run, Millis(NOW.0 + 1_000))
        .await
        .unwrap();
    let mut expiring = batch(4, 4, Next::Keep);
    expiring.expired_approvals = vec![approval("b")];
    fixture.commit(claim.lease, expiring).await;
    assert_eq!(status(&fixture, "b").await, ApprovalStatus::Expired);
}

pub(crate) async fn the_end_of_a_run_cancels_its_approvals(fixture: Fixture) {
    let lease = asked(&fixture, "a", |_| {}).await;
    let claim = fixture
        .try_claim(lease.run, Millis(NOW.0 + 1_000))
        .await
        .unwrap();
    fixture.finish(claim.lease, 4, RunStatus::Cancelled).await;
    assert_eq!(status(&fixture, "a").await, ApprovalStatus::Cancelled);
    let decision = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    assert_eq!(decide(&fixture, decision).await, DecisionDelivery::Terminal);
}

pub(crate) async fn a_run_that_is_being_cancelled_takes_no_decision(fixture: Fixture) {
    asked(&fixture, "a", |_| {}).await;
    let store = fixture.store();
    store
        .cancel_run(fixture.acme, &run_id("a"), "user", NOW)
        .await
        .unwrap();
    let decision = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    assert_eq!(decide(&fixture, decision).await, DecisionDelivery::Terminal);
}

pub(crate) async fn the_starter_does_not_decide_for_others(fixture: Fixture) {
    asked(&fixture, "a", |new| new.approver = Approver::Other).await;
    let starter = fixture.new_run("a").credential;
    let mut own = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    own.by.id = Some(starter);
    assert_eq!(
        decide(&fixture, own).await,
        DecisionDelivery::NotForThisCredential
    );
    let other = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    assert!(matches!(
        decide(&fixture, other).await,
        DecisionDelivery::Accepted(..)
    ));
}

pub(crate) async fn unknown_approvals_and_runs_are_told_apart(fixture: Fixture) {
    asked(&fixture, "a", |_| {}).await;
    fixture.started("b").await;
    let verdict = ApprovalVerdict::Approve;
    let of_other_run = deciding(&fixture, "b", "a", verdict);
    assert_eq!(
        decide(&fixture, of_other_run).await,
        DecisionDelivery::UnknownApproval
    );
    let unknown = deciding(&fixture, "a", "x", verdict);
    assert_eq!(
        decide(&fixture, unknown).await,
        DecisionDelivery::UnknownApproval
    );
    let no_run = deciding(&fixture, "x", "a", verdict);
    assert_eq!(decide(&fixture, no_run).await, DecisionDelivery::UnknownRun);
}

pub(crate) async fn an_idempotency_key_repeats_the_decision(fixture: Fixture) {
    asked(&fixture, "a", |_| {}).await;
    let mut decision = deciding(&fixture, "a", "a", ApprovalVerdict::Approve);
    decision.idempotency = Some(key("k", 1));
    assert!(matches!(
        decide(&fixture, decision.clone()).await,
        DecisionDelivery::Accepted(..)
    ));
    assert!(matches!(
        decide(&fixture, decision.clone()).await,
        DecisionDelivery::Same(_)
    ));
    decision.idempotency = Some(key("k", 2));
    assert_eq!(
        decide(&fixture, decision).await,
        DecisionDelivery::KeyReused
    );
}

pub(crate) async fn the_inbox_is_filtered_and_paged(mut fixture: Fixture) {
    for name in ["a", "b", "c"] {
        asked(&fixture, name, |_| {}).await;
    }
    let decision = deciding(&fixture, "b", "b", ApprovalVerdict::Deny);
    decide(&fixture, decision).await;
    fixture.reopen().await;
    let list = async |filter: ApprovalFilter, limit: usize| -> Vec<String> {
        let store = fixture.store();
        let found = store
            .list_approvals(fixture.acme, &filter, page(limit), 1 << 20)
            .await;
        let rows = found.unwrap().rows;
        rows.into_iter()
            .map(|row| row.request.approval_id.to_string())
            .collect()
    };
    assert_eq!(
        list(ApprovalFilter::default(), 9).await,
        ["apr_c", "apr_b", "apr_a"]
    );
    assert_eq!(list(ApprovalFilter::default(), 2).await, ["apr_c", "apr_b"]);
    let pending = ApprovalFilter {
        status: Some(ApprovalStatus::Pending),
        ..ApprovalFilter::default()
    };
    assert_eq!(list(pending.clone(), 9).await, ["apr_c", "apr_a"]);
    let of_run = ApprovalFilter {
        run: Some(run_id("a")),
        root: Some(run_id("a")),
        ..ApprovalFilter::default()
    };
    assert_eq!(list(of_run, 9).await, ["apr_a"]);
    let store = fixture.store();
    assert_eq!(
        store.count_approvals(fixture.acme, &pending).await.unwrap(),
        2
    );
    let small = store
        .list_approvals(fixture.acme, &pending, page(9), 1)
        .await
        .unwrap();
    assert_eq!((small.rows.len(), small.cut), (1, true));
    let census = store.approval_census().await.unwrap();
    assert_eq!((census.pending, census.oldest), (2, Some(NOW)));
    let row = fixture.row("a").await;
    assert_eq!(
        store.pending_approvals(row.no).await.unwrap(),
        [approval("a")]
    );
}
