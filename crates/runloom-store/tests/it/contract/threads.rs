//! History of sessions, and threads.

use runloom_ports::store::{
    Millis, NewAgUiRun, Next, OpenedAgUiRun, SessionNo, ThreadCreated, ToolMessageId,
};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW, batch, session_id};

fn opened(id: &str, at: Millis, calls: &[(&str, &str)]) -> NewAgUiRun {
    let message = |(call, id): &(&str, &str)| ToolMessageId {
        tool_use_id: (*call).to_owned(),
        message_id: (*id).to_owned(),
    };
    NewAgUiRun {
        id: id.to_owned(),
        body: format!("{{\"of\":\"{id}\"}}"),
        at,
        tool_messages: calls.iter().map(message).collect(),
    }
}

async fn number(fixture: &Fixture, name: &str) -> SessionNo {
    let row = fixture
        .store()
        .session(fixture.acme, &session_id(name))
        .await;
    row.unwrap().unwrap().no
}

pub(crate) async fn runs_of_a_session_come_newest_first(fixture: Fixture) {
    fixture.session("s").await;
    fixture.session("t").await;
    let first = fixture.message("s", "a").await;
    let lease = fixture.claim(first).await.lease;
    fixture.finish(lease, 1, RunStatus::Failed).await;
    fixture.message("t", "other").await;
    let second = fixture.message("s", "b").await;
    let session = number(&fixture, "s").await;
    let store = fixture.store();
    let runs = store.history_runs(session, None, 10).await.unwrap();
    let seen: Vec<_> = runs.iter().map(|run| (run.no, run.ended)).collect();
    assert_eq!(seen, [(second, false), (first, true)]);
    assert_eq!(runs[1].spec, fixture.new_run("a").spec);
    assert_eq!(runs[1].created_at, NOW);
    let older = store.history_runs(session, Some(second), 10).await.unwrap();
    assert_eq!(older.len(), 1);
    assert_eq!(older[0].no, first);
    let one = store.history_runs(session, None, 1).await.unwrap();
    assert_eq!(one[0].no, second);
}

pub(crate) async fn a_log_tells_when_it_was_written(fixture: Fixture) {
    let run = fixture.create(fixture.new_run("a")).await;
    let lease = fixture.claim(run).await.lease;
    for (first, at) in [(1, 10), (3, 20), (5, 30)] {
        let mut batch = batch(first, first + 1, Next::Keep);
        batch.at = Millis(at);
        fixture.commit(lease, batch).await;
    }
    let store = fixture.store();
    let times = store.log_times(run, 2, 10).await.unwrap();
    let times: Vec<_> = times
        .iter()
        .map(|time| (time.last_seq, time.at.0))
        .collect();
    assert_eq!(times, [(4, 20), (6, 30)]);
    assert_eq!(store.log_times(run, 0, 1).await.unwrap()[0].at, Millis(10));
    assert!(store.log_times(run, 6, 10).await.unwrap().is_empty());
}

pub(crate) async fn a_thread_has_one_session(fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.thread(fixture.acme, "k").await.unwrap(), None);
    let make = |name: &str, key: &'static str| {
        let session = fixture.new_session(name);
        let store = fixture.store();
        async move { store.create_thread(session, key).await.unwrap() }
    };
    let (one, two) = tokio::join!(make("a", "k"), make("b", "k"));
    let first = if one == ThreadCreated::New { "a" } else { "b" };
    let existing = ThreadCreated::Existing(session_id(first));
    assert!([&one, &two].contains(&&existing), "{one:?} {two:?}");
    assert!(
        [&one, &two].contains(&&ThreadCreated::New),
        "{one:?} {two:?}"
    );
    let found = store.thread(fixture.acme, "k").await.unwrap();
    assert_eq!(found, Some(session_id(first)));
    assert_eq!(make("c", "other").await, ThreadCreated::New);
}

pub(crate) async fn an_ag_ui_run_is_seen_once(fixture: Fixture) {
    fixture.session("s").await;
    fixture.session("t").await;
    let (session, other) = (number(&fixture, "s").await, number(&fixture, "t").await);
    let store = &fixture.store();
    let open = |of, run| async move { store.open_ag_ui_run(of, run).await.unwrap() };
    assert_eq!(
        open(session, opened("r1", NOW, &[])).await,
        OpenedAgUiRun::New
    );
    let again = open(session, opened("r1", Millis(NOW.0 + 5), &[("tu_9", "x")])).await;
    assert_eq!(again, OpenedAgUiRun::Seen("{\"of\":\"r1\"}".to_owned()));
    assert_eq!(
        open(other, opened("r1", NOW, &[])).await,
        OpenedAgUiRun::New
    );
    assert!(store.tool_messages(session).await.unwrap().is_empty());
    let since = |ms| Millis(NOW.0 + ms);
    assert!(store.followed_since(session, since(5)).await.unwrap());
    assert!(!store.followed_since(session, since(6)).await.unwrap());
    assert!(!store.followed_since(other, since(1)).await.unwrap());
    store.withdraw_ag_ui_run(session, "r1").await.unwrap();
    assert_eq!(
        open(session, opened("r1", NOW, &[])).await,
        OpenedAgUiRun::New
    );
}

pub(crate) async fn the_first_message_of_a_call_keeps_its_id(fixture: Fixture) {
    fixture.session("s").await;
    let session = number(&fixture, "s").await;
    let store = fixture.store();
    for (run, calls) in [
        ("r1", &[("tu_1", "a")][..]),
        ("r2", &[("tu_1", "b"), ("tu_2", "c")]),
    ] {
        let new = opened(run, NOW, calls);
        store.open_ag_ui_run(session, new).await.unwrap();
    }
    let mut ids = store.tool_messages(session).await.unwrap();
    ids.sort_by(|one, two| one.tool_use_id.cmp(&two.tool_use_id));
    let ids: Vec<_> = ids.iter().map(|id| id.message_id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]);
}
