//! What replicas hear of each other.

use runloom_ports::store::{Next, RunNo};
use runloom_store::postgres::{Notice, Notifications};

use crate::database::Database;
use crate::fixture::{Fixture, batch};

/// The notices up to and including the first that `is_last`.
async fn until(heard: &mut Notifications, is_last: impl Fn(&Notice) -> bool) -> Vec<Notice> {
    let mut notices = Vec::new();
    loop {
        let notice = heard.next().await;
        let last = is_last(&notice);
        notices.push(notice);
        if last {
            return notices;
        }
    }
}

fn tells(notice: &Notice, run: RunNo, seq: u64) -> bool {
    matches!(notice, Notice::Events(events) if events.contains(&(run, seq)))
}

#[tokio::test(flavor = "multi_thread")]
async fn announces_commits_mail_and_waiting_runs() {
    let database = Database::create().await;
    let url = database.url();
    let fixture = Fixture::at(url.clone(), database).await;
    let mut heard = Notifications::listen(&url).await.unwrap();
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 5, Next::Keep)).await;
    until(&mut heard, |notice| tells(notice, lease.run, 5)).await;
    fixture
        .store()
        .cancel_run(
            fixture.acme,
            &crate::fixture::run_id("a"),
            "user",
            crate::fixture::NOW,
        )
        .await
        .unwrap();
    until(&mut heard, |notice| *notice == Notice::Mail(lease.run)).await;
    fixture.queued("b").await;
    until(&mut heard, |notice| *notice == Notice::Queue).await;
    fixture.commit(lease, batch(6, 6, Next::Release)).await;
    until(&mut heard, |notice| *notice == Notice::Queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_lost_connections() {
    let database = Database::create().await;
    let url = database.url();
    let beside = database.client().await;
    let mut heard = Notifications::listen(&url).await.unwrap();
    database.cut(&beside).await;
    assert_eq!(heard.next().await, Notice::Lost);
    let fixture = Fixture::at(url, database).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    until(&mut heard, |notice| tells(notice, lease.run, 2)).await;
}
