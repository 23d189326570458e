//! Answers and cancels: accepted or refused, and who has to be told.

use runloom_ports::store::{Cancelled, Delivery, MailBody, MailNo, Next, ToolDelivery};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW, answer, batch, key, open_call, run_id};

async fn cancel(fixture: &Fixture, name: &str) -> Cancelled {
    fixture
        .store()
        .cancel_run(fixture.acme, &run_id(name), "user", NOW)
        .await
        .unwrap()
}

async fn bodies(fixture: &Fixture, lease: runloom_ports::store::Lease) -> Vec<MailBody> {
    let mail = fixture.store().mail(lease.run, MailNo::default()).await;
    mail.unwrap().into_iter().map(|mail| mail.body).collect()
}

fn result(call: &str) -> MailBody {
    MailBody::ToolResult {
        tool_use_id: call.to_owned(),
        answer: answer(call).answer,
        files: answer(call).files,
    }
}

pub(crate) async fn an_answer_to_a_parked_run_makes_it_claimable(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    assert!(fixture.claimable(NOW).await.is_empty());
    let accepted = fixture.answer("a", "call").await;
    assert_eq!(accepted, ToolDelivery::Accepted(Delivery::Queue(lease.run)));
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
    let claim = fixture.claim(lease.run).await;
    assert_eq!(claim.mail.len(), 1);
    assert_eq!(claim.mail[0].body, result("call"));
    assert_eq!(claim.mail[0].at, NOW);
}

pub(crate) async fn an_answer_to_a_held_run_goes_to_its_owner(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("call")];
    fixture.commit(lease, opening).await;
    let accepted = fixture.answer("a", "call").await;
    assert_eq!(accepted, ToolDelivery::Accepted(Delivery::Owner(lease.run)));
    assert!(fixture.claimable(NOW).await.is_empty());
}

pub(crate) async fn a_call_is_answered_once(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    fixture.answer("a", "call").await;
    assert_eq!(fixture.answer("a", "call").await, ToolDelivery::UnknownCall);
    assert_eq!(bodies(&fixture, lease).await, [result("call")]);
}

pub(crate) async fn an_answer_to_a_closed_or_unknown_call_is_refused(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("call")];
    fixture.commit(lease, opening).await;
    let mut closing = batch(3, 3, Next::Keep);
    closing.closed = vec!["call".to_owned()];
    fixture.commit(lease, closing).await;
    assert_eq!(fixture.answer("a", "call").await, ToolDelivery::UnknownCall);
    assert_eq!(
        fixture.answer("a", "other").await,
        ToolDelivery::UnknownCall
    );
    assert_eq!(fixture.answer("b", "call").await, ToolDelivery::UnknownRun);
    assert!(bodies(&fixture, lease).await.is_empty());
}

pub(crate) async fn an_answer_after_the_end_is_terminal(fixture: Fixture) {
    for (name, status) in [("a", RunStatus::Succeeded), ("b", RunStatus::Failed)] {
        let lease = fixture.started(name).await;
        let mut opening = batch(2, 2, Next::Keep);
        opening.opened = vec![open_call("call")];
        fixture.commit(lease, opening).await;
        fixture.finish(lease, 3, status).await;
        assert_eq!(fixture.answer(name, "call").await, ToolDelivery::Terminal);
    }
}

pub(crate) async fn an_answer_after_a_cancel_is_ignored(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    cancel(&fixture, "a").await;
    assert_eq!(fixture.answer("a", "call").await, ToolDelivery::Ignored);
    let claim = fixture.claim(lease.run).await;
    assert_eq!(claim.mail.len(), 1, "the cancel alone");
    fixture.finish(claim.lease, 3, RunStatus::Cancelled).await;
    assert_eq!(fixture.answer("a", "call").await, ToolDelivery::Ignored);
}

pub(crate) async fn an_answer_with_a_key_is_replayed(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    let first = key("answer:k", 1);
    fixture.answer_with("a", "call", Some(&first)).await;
    let again = fixture.answer_with("a", "call", Some(&first)).await;
    assert_eq!(again, ToolDelivery::Replayed);
    let other = fixture
        .answer_with("a", "call", Some(&key("answer:k", 2)))
        .await;
    assert_eq!(other, ToolDelivery::KeyReused);
    let claim = fixture.claim(lease.run).await;
    assert_eq!(claim.mail.len(), 1);
    fixture.finish(claim.lease, 3, RunStatus::Succeeded).await;
    let after = fixture.answer_with("a", "call", Some(&first)).await;
    assert_eq!(after, ToolDelivery::Replayed);
}

pub(crate) async fn an_answer_from_another_workspace_finds_no_run(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    let foreign = fixture
        .store()
        .deliver_tool_result(fixture.rival, &run_id("a"), &answer("call"), None, NOW)
        .await;
    assert_eq!(foreign.unwrap(), ToolDelivery::UnknownRun);
    assert!(bodies(&fixture, lease).await.is_empty());
    assert!(fixture.claimable(NOW).await.is_empty());
}

pub(crate) async fn a_cancel_of_a_parked_run_makes_it_claimable(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    assert_eq!(
        cancel(&fixture, "a").await,
        Cancelled::Accepted(Delivery::Queue(lease.run))
    );
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
    let claim = fixture.claim(lease.run).await;
    let reason = "user".to_owned();
    assert_eq!(claim.mail[0].body, MailBody::Cancel { reason });
}

pub(crate) async fn a_cancel_of_a_held_run_goes_to_its_owner(fixture: Fixture) {
    let lease = fixture.started("a").await;
    assert_eq!(
        cancel(&fixture, "a").await,
        Cancelled::Accepted(Delivery::Owner(lease.run))
    );
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    assert_eq!(bodies(&fixture, lease).await.len(), 1);
}

pub(crate) async fn a_second_cancel_is_nothing(fixture: Fixture) {
    let lease = fixture.started("a").await;
    cancel(&fixture, "a").await;
    assert_eq!(cancel(&fixture, "a").await, Cancelled::Nothing);
    assert_eq!(bodies(&fixture, lease).await.len(), 1);
}

pub(crate) async fn a_cancel_after_the_end_is_nothing(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.finish(lease, 2, RunStatus::Succeeded).await;
    assert_eq!(cancel(&fixture, "a").await, Cancelled::Nothing);
    assert_eq!(fixture.row("a").await.status, RunStatus::Succeeded);
    assert!(bodies(&fixture, lease).await.is_empty());
}

pub(crate) async fn a_cancel_from_another_workspace_finds_no_run(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let foreign = fixture
        .store()
        .cancel_run(fixture.rival, &run_id("a"), "user", NOW)
        .await;
    assert_eq!(foreign.unwrap(), Cancelled::UnknownRun);
    assert!(bodies(&fixture, lease).await.is_empty());
}

pub(crate) async fn mail_is_read_in_order_and_after_a_number(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("x"), open_call("y")];
    fixture.commit(lease, opening).await;
    for call in ["y", "x"] {
        fixture.answer("a", call).await;
    }
    cancel(&fixture, "a").await;
    let all = fixture.store().mail(lease.run, MailNo::default()).await;
    let all = all.unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].body, result("y"));
    assert_eq!(all[1].body, result("x"));
    assert!(all.is_sorted_by_key(|mail| mail.no));
    let rest = fixture.store().mail(lease.run, all[0].no).await.unwrap();
    assert_eq!(rest, all[1..]);
}

pub(crate) async fn mail_and_calls_end_with_the_run(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("x"), open_call("y")];
    fixture.commit(lease, opening).await;
    fixture.answer("a", "x").await;
    fixture.finish(lease, 3, RunStatus::Succeeded).await;
    assert!(bodies(&fixture, lease).await.is_empty());
    assert_eq!(fixture.answer("a", "y").await, ToolDelivery::Terminal);
}
