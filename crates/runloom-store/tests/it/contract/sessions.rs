//! Sessions: order of runs, history, ending.

use runloom_ports::store::{
    Created, CreatedSession, Delivery, Ended, MailBody, Millis, Next, SessionFilter, SessionNo,
    StartNow,
};
use runloom_protocol::resource::{RunStatus, SessionStatus};
use runloom_protocol::spec::{PromptMessage, Role};

use crate::fixture::{
    Fixture, NOW, batch, ending, finishing, key, run_id, says, session_id, start,
};

async fn cancel(fixture: &Fixture, name: &str) {
    let store = fixture.store();
    store
        .cancel_run(fixture.acme, &run_id(name), "user", NOW)
        .await
        .unwrap();
}

/// Runs a message of the session to its success, appending these messages.
async fn succeed(fixture: &Fixture, session: &str, name: &str, messages: Vec<PromptMessage>) {
    let run = fixture.message(session, name).await;
    let lease = fixture.claim(run).await.lease;
    let mut end = ending(RunStatus::Succeeded);
    end.session_messages = messages;
    fixture.commit(lease, finishing(1, end)).await;
}

pub(crate) async fn messages_of_a_session_run_one_after_the_other(fixture: Fixture) {
    fixture.session("s").await;
    let first = fixture.message("s", "a").await;
    let second = fixture.message("s", "b").await;
    assert_eq!(fixture.claimable(NOW).await, [first]);
    assert!(fixture.try_claim(second, NOW).await.is_none());
    let lease = fixture.claim(first).await.lease;
    assert!(fixture.try_claim(second, NOW).await.is_none());
    fixture
        .commit(lease, batch(1, 1, Next::Park { wake_at: None }))
        .await;
    assert!(fixture.claimable(NOW).await.is_empty(), "parked is alive");
    cancel(&fixture, "a").await;
    let lease = fixture.claim(first).await.lease;
    fixture.finish(lease, 2, RunStatus::Cancelled).await;
    assert_eq!(fixture.claimable(NOW).await, [second]);
    assert!(fixture.try_claim(second, NOW).await.is_some());
}

pub(crate) async fn a_message_behind_another_is_not_started_at_once(fixture: Fixture) {
    fixture.session("s").await;
    let with_start = |name: &str| {
        let mut run = fixture.new_run(name);
        run.session = Some(session_id("s"));
        run.start = Some(start());
        run
    };
    let first = fixture.store().create_run(with_start("a")).await.unwrap();
    let Created::New {
        lease: Some(lease),
        blocked: false,
        ..
    } = first
    else {
        panic!("{first:?}");
    };
    let second = fixture.store().create_run(with_start("b")).await.unwrap();
    let Created::New {
        run,
        lease: None,
        blocked: true,
    } = second
    else {
        panic!("{second:?}");
    };
    assert_eq!(fixture.row("b").await.status, RunStatus::Queued);
    assert!(fixture.seqs(run).await.is_empty());
    let done = fixture.finish(lease, 2, RunStatus::Succeeded).await;
    assert_eq!(done.next_in_session, Some(run));
}

pub(crate) async fn a_cancelled_message_needs_no_turn(fixture: Fixture) {
    fixture.session("s").await;
    let first = fixture.message("s", "a").await;
    let second = fixture.message("s", "b").await;
    cancel(&fixture, "b").await;
    assert_eq!(fixture.claimable(NOW).await, [first, second]);
    let lease = fixture.claim(second).await.lease;
    let done = fixture.finish(lease, 1, RunStatus::Cancelled).await;
    assert_eq!(done.next_in_session, Some(first));
    assert_eq!(fixture.claimable(NOW).await, [first]);
}

pub(crate) async fn the_end_of_a_run_names_the_next_of_its_session(fixture: Fixture) {
    fixture.session("s").await;
    fixture.session("other").await;
    let first = fixture.message("s", "a").await;
    fixture.message("other", "x").await;
    let second = fixture.message("s", "b").await;
    fixture.message("s", "c").await;
    let lease = fixture.claim(first).await.lease;
    let done = fixture.finish(lease, 1, RunStatus::Failed).await;
    assert_eq!(done.next_in_session, Some(second));
    let alone = fixture.started("alone").await;
    let done = fixture.finish(alone, 2, RunStatus::Succeeded).await;
    assert_eq!(done.next_in_session, None);
}

pub(crate) async fn a_session_stays_on_the_model_that_a_run_ended_with(mut fixture: Fixture) {
    fixture.session("s").await;
    let active = async |fixture: &Fixture| {
        let row = fixture
            .store()
            .session(fixture.acme, &session_id("s"))
            .await;
        row.unwrap().unwrap().active_model
    };
    let end = async |fixture: &Fixture, name: &str, model: Option<&str>| {
        let run = fixture.message("s", name).await;
        let claim = fixture.claim(run).await;
        let mut end = ending(RunStatus::Failed);
        end.active_model = model.map(str::to_owned);
        fixture.commit(claim.lease, finishing(1, end)).await;
        claim.active_model
    };
    assert_eq!(active(&fixture).await, None);
    assert_eq!(end(&fixture, "a", Some("platform:spare")).await, None);
    let spare = Some("platform:spare".to_owned());
    assert_eq!(active(&fixture).await, spare);
    assert_eq!(end(&fixture, "b", None).await, spare, "the next run knows");
    fixture.reopen().await;
    assert_eq!(active(&fixture).await, spare);
    let resumed = fixture
        .store()
        .resume_session(fixture.acme, &session_id("s"), Some(0))
        .await;
    assert_eq!(resumed.unwrap().unwrap().row.active_model, spare);
}

pub(crate) async fn messages_are_appended_when_the_ending_has_them(fixture: Fixture) {
    let store = fixture.store();
    let session = fixture.session("s").await;
    let pair = vec![says(Role::User, "hi"), says(Role::Assistant, "hello")];
    succeed(&fixture, "s", "a", pair.clone()).await;
    let failed = fixture.message("s", "b").await;
    let lease = fixture.claim(failed).await.lease;
    fixture.finish(lease, 1, RunStatus::Failed).await;
    succeed(&fixture, "s", "c", pair.clone()).await;
    let messages = store
        .session_messages(session, None, 100, 1 << 20)
        .await
        .unwrap();
    let numbers: Vec<u64> = messages.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(messages[2].1, pair[0]);
    assert_eq!(store.count_messages(session).await.unwrap(), 4);
    assert_eq!(store.count_messages(SessionNo(4_711)).await.unwrap(), 0);
}

pub(crate) async fn the_next_run_knows_the_sessions_history(mut fixture: Fixture) {
    fixture.session("s").await;
    let pair = vec![says(Role::User, "hi"), says(Role::Assistant, "hello")];
    succeed(&fixture, "s", "a", pair.clone()).await;
    fixture.reopen().await;
    let run = fixture.message("s", "b").await;
    let claim = fixture.claim(run).await;
    assert!(claim.in_session);
    assert_eq!(claim.history, pair);
}

pub(crate) async fn a_message_is_started_at_once_by_who_knows_all_that_was_said(fixture: Fixture) {
    let store = fixture.store();
    fixture.session("s").await;
    let pair = vec![says(Role::User, "hi"), says(Role::Assistant, "hello")];
    succeed(&fixture, "s", "a", pair.clone()).await;
    let id = session_id("s");
    let resumed = |known| store.resume_session(fixture.acme, &id, known);
    let all = resumed(Some(0)).await.unwrap().unwrap();
    assert_eq!((all.since, all.busy), (pair.clone(), false));
    let last = resumed(Some(1)).await.unwrap().unwrap();
    assert_eq!(last.since, pair[1..]);
    let row = resumed(None).await.unwrap().unwrap();
    assert_eq!((row.since, row.row.id), (Vec::new(), session_id("s")));
    let knowing = |name: &str, history| {
        let mut run = fixture.new_run(name);
        run.session = Some(session_id("s"));
        run.start = Some(StartNow { history, ..start() });
        run
    };
    let stale = store.create_run(knowing("b", 1)).await.unwrap();
    let Created::New {
        run,
        lease: None,
        blocked: false,
    } = stale
    else {
        panic!("{stale:?}");
    };
    assert!(resumed(Some(2)).await.unwrap().unwrap().busy);
    let lease = fixture.claim(run).await.lease;
    fixture.finish(lease, 1, RunStatus::Failed).await;
    let fresh = store.create_run(knowing("c", 2)).await.unwrap();
    assert!(
        matches!(fresh, Created::New { lease: Some(_), .. }),
        "{fresh:?}"
    );
    let rival = store.resume_session(fixture.rival, &id, None);
    assert!(rival.await.unwrap().is_none());
}

pub(crate) async fn an_ended_session_takes_no_messages_and_cancels_its_runs(fixture: Fixture) {
    let store = fixture.store();
    fixture.session("s").await;
    let held = fixture.message("s", "a").await;
    fixture.claim(held).await;
    let queued = fixture.message("s", "b").await;
    let end = Millis(NOW.0 + 3);
    let ended = store.end_session(fixture.acme, &session_id("s"), end).await;
    assert_eq!(
        ended.unwrap(),
        Ended::Ended(vec![Delivery::Owner(held), Delivery::Queue(queued)])
    );
    let claim = fixture.claim(queued).await;
    let reason = "session_ended".to_owned();
    assert_eq!(claim.mail[0].body, MailBody::Cancel { reason });
    let row = store.session(fixture.acme, &session_id("s")).await.unwrap();
    let row = row.unwrap();
    assert_eq!(row.status, SessionStatus::Ended);
    assert_eq!(row.ended_at, Some(end));
    let mut late = fixture.new_run("c");
    late.session = Some(session_id("s"));
    let refused = store.create_run(late).await.unwrap();
    assert_eq!(refused, Created::SessionEnded);
    let again = store.end_session(fixture.acme, &session_id("s"), NOW).await;
    assert_eq!(again.unwrap(), Ended::Ended(Vec::new()));
    let row = store.session(fixture.acme, &session_id("s")).await.unwrap();
    assert_eq!(row.unwrap().ended_at, Some(end), "the first end counts");
}

pub(crate) async fn a_session_of_another_workspace_is_not_found(fixture: Fixture) {
    let store = fixture.store();
    fixture.session("s").await;
    let id = session_id("s");
    let row = store.session(fixture.rival, &id).await.unwrap();
    assert!(row.is_none());
    let ended = store.end_session(fixture.rival, &id, NOW).await.unwrap();
    assert_eq!(ended, Ended::UnknownSession);
    let mut run = fixture.new_run("a");
    run.workspace = fixture.rival;
    run.session = Some(id.clone());
    let refused = store.create_run(run).await.unwrap();
    assert_eq!(refused, Created::NoSession);
    let own = store.session(fixture.acme, &id).await.unwrap().unwrap();
    assert_eq!(own.status, SessionStatus::Active);
    assert_eq!(own.name.as_deref(), Some("s"));
    assert_eq!(
        (own.spec.as_str(), own.public_spec.as_str()),
        ("{\"sealed\":1}", "{\"open\":1}")
    );
}

pub(crate) async fn pages_of_messages_are_the_last_before_a_number(fixture: Fixture) {
    let session = fixture.session("s").await;
    let ten = (1..=10).map(|n| says(Role::User, &n.to_string())).collect();
    succeed(&fixture, "s", "a", ten).await;
    let read = async |before, limit| -> Vec<String> {
        let page = fixture
            .store()
            .session_messages(session, before, limit, 1 << 20)
            .await;
        page.unwrap().into_iter().map(|(_, m)| m.content).collect()
    };
    assert_eq!(read(None, 3).await, ["8", "9", "10"]);
    assert_eq!(read(Some(8), 3).await, ["5", "6", "7"]);
    assert_eq!(read(Some(2), 3).await, ["1"]);
    assert!(read(Some(1), 3).await.is_empty());
}

pub(crate) async fn pages_of_messages_are_no_larger_than_asked_but_never_empty(fixture: Fixture) {
    let session = fixture.session("s").await;
    let all = [3, 1, 200, 1, 1].map(|n| says(Role::User, &"x".repeat(n)));
    succeed(&fixture, "s", "a", all.to_vec()).await;
    let empty = serde_json::to_string(&says(Role::User, "")).unwrap().len();
    let read = async |before, room| -> Vec<u64> {
        let page = fixture
            .store()
            .session_messages(session, before, 100, room)
            .await;
        page.unwrap().into_iter().map(|(n, _)| n).collect()
    };
    assert_eq!(read(None, 0).await, [5]);
    assert_eq!(read(None, 2 * empty + 1).await, [5]);
    assert_eq!(read(None, 2 * empty + 2).await, [4, 5]);
    assert_eq!(read(None, 3 * empty + 201).await, [4, 5]);
    assert_eq!(read(None, 3 * empty + 202).await, [3, 4, 5]);
    assert_eq!(read(Some(4), 10).await, [3], "larger than the page");
    assert_eq!(read(Some(3), 2 * empty + 4).await, [1, 2]);
    assert!(read(Some(1), 1_000).await.is_empty());
}

pub(crate) async fn a_session_with_a_key_is_made_once(mut fixture: Fixture) {
    let keyed = |fixture: &Fixture, name: &str, body| {
        let mut session = fixture.new_session(name);
        session.idempotency = Some(key("create_session:k", body));
        session
    };
    let first = keyed(&fixture, "a", 1);
    let made = fixture.store().create_session(first).await;
    assert_eq!(made.unwrap(), CreatedSession::New);
    fixture.reopen().await;
    let store = fixture.store();
    let again = store.create_session(keyed(&fixture, "b", 1)).await;
    assert_eq!(again.unwrap(), CreatedSession::Replayed(session_id("a")));
    let other = store.create_session(keyed(&fixture, "c", 2)).await;
    assert_eq!(other.unwrap(), CreatedSession::KeyReused);
    let mut rivals = keyed(&fixture, "d", 2);
    rivals.workspace = fixture.rival;
    let made = store.create_session(rivals).await;
    assert_eq!(made.unwrap(), CreatedSession::New);
    let all = SessionFilter::default();
    let count = store.count_sessions(fixture.acme, &all).await;
    assert_eq!(count.unwrap(), 1);
}
