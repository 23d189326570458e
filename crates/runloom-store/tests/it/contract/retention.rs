//! Getting rid of what need not be kept any longer.

use runloom_ports::store::{
    Created, Cutoffs, Ended, Millis, NewAgUiRun, Next, Purged, RunFilter, SessionFilter, SessionNo,
    ThreadCreated, ToolMessageId,
};
use runloom_protocol::resource::{RunStatus, SessionStatus};
use runloom_protocol::spec::{Metadata, Role};

use crate::fixture::{
    Fixture, NOW, batch, ending, finishing, key, page, run_id, says, session_id, start,
};

fn later(ms: i64) -> Millis {
    Millis(NOW.0 + ms)
}

async fn purge(fixture: &Fixture, old: Cutoffs, limit: usize) -> Purged {
    fixture.store().purge(old, limit).await.unwrap()
}

fn keys(before: Millis) -> Cutoffs {
    Cutoffs {
        keys: before,
        ..Cutoffs::default()
    }
}

fn ended(before: Millis) -> Cutoffs {
    Cutoffs {
        ended: Some(before),
        ..Cutoffs::default()
    }
}

fn unused(before: Millis) -> Cutoffs {
    Cutoffs {
        unused: Some(before),
        ..Cutoffs::default()
    }
}

/// Ends the session at this moment.
async fn end(fixture: &Fixture, name: &str, at: Millis) {
    let store = fixture.store();
    let ended = store.end_session(fixture.acme, &session_id(name), at).await;
    assert!(matches!(ended.unwrap(), Ended::Ended(_)));
}

/// An ended run of the session with this many messages.
async fn talk(fixture: &Fixture, session: &str, run: &str, messages: usize) {
    let no = fixture.message(session, run).await;
    let lease = fixture.claim(no).await.lease;
    let mut end = ending(RunStatus::Succeeded);
    end.session_messages = (0..messages).map(|_| says(Role::User, "hi")).collect();
    fixture.commit(lease, finishing(1, end)).await;
}

async fn status(fixture: &Fixture, name: &str) -> Option<SessionStatus> {
    let store = fixture.store();
    let row = store.session(fixture.acme, &session_id(name)).await;
    row.unwrap().map(|row| row.status)
}

async fn messages(fixture: &Fixture, session: SessionNo) -> usize {
    let store = fixture.store();
    let all = store.session_messages(session, None, 1_000, 1 << 20).await;
    all.unwrap().len()
}

pub(crate) async fn purge_removes_old_runs_and_only_those(fixture: Fixture) {
    let store = fixture.store();
    let mut labelled = fixture.new_run("old");
    labelled.start = Some(start());
    labelled
        .metadata
        .insert("team".to_owned(), "blue".to_owned());
    let filter = RunFilter {
        metadata: labelled.metadata.clone().into_iter().collect(),
        ..RunFilter::default()
    };
    let Created::New {
        lease: Some(old), ..
    } = store.create_run(labelled).await.unwrap()
    else {
        panic!("not started");
    };
    fixture.finish(old, 2, RunStatus::Succeeded).await;
    let other = fixture.started("other").await;
    fixture.finish(other, 2, RunStatus::Failed).await;
    fixture.started("live").await;
    assert_eq!(purge(&fixture, ended(NOW), 10).await, Purged::default());
    let first = purge(&fixture, ended(later(1)), 1).await;
    assert_eq!((first.runs, first.more), (1, true));
    assert!(
        store
            .run(fixture.acme, &run_id("old"))
            .await
            .unwrap()
            .is_none()
    );
    assert!(fixture.seqs(old.run).await.is_empty());
    let labelled = store.list_runs(fixture.acme, &filter, page(10)).await;
    assert!(labelled.unwrap().is_empty());
    assert_eq!(fixture.seqs(other.run).await.len(), 2);
    let last = purge(&fixture, ended(later(1)), 10).await;
    assert_eq!((last.runs, last.more), (1, false));
    assert_eq!(
        purge(&fixture, ended(later(1)), 10).await,
        Purged::default()
    );
    assert_eq!(fixture.row("live").await.status, RunStatus::Running);
}

pub(crate) async fn purge_forgets_old_idempotency_keys(fixture: Fixture) {
    let store = fixture.store();
    let mut first = fixture.new_run("a");
    first.idempotency = Some(key("create:k", 1));
    fixture.create(first).await;
    let again = |name: &str| {
        let mut run = fixture.new_run(name);
        run.idempotency = Some(key("create:k", 1));
        run
    };
    purge(&fixture, keys(NOW), 10).await;
    let kept = store.create_run(again("b")).await.unwrap();
    assert_eq!(kept, Created::Replayed(run_id("a")));
    let all = purge(&fixture, keys(later(1)), 1).await;
    assert!(all.more, "a page that is full may not be the last");
    assert!(!purge(&fixture, keys(later(1)), 1).await.more);
    fixture.create(again("c")).await;
}

pub(crate) async fn run_numbers_do_not_come_back_after_a_purge(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.finish(lease, 2, RunStatus::Succeeded).await;
    purge(&fixture, ended(later(1)), 10).await;
    fixture.reopen().await;
    let next = fixture.queued("b").await;
    assert!(next > lease.run, "{next:?} after {:?}", lease.run);
}

pub(crate) async fn an_old_ended_session_goes_with_all_that_was_said(fixture: Fixture) {
    let store = fixture.store();
    let mut labelled = fixture.new_session("old");
    labelled.metadata = Metadata::from([("team".to_owned(), "blue".to_owned())]);
    let filter = SessionFilter {
        visible_to: None,
        status: None,
        metadata: labelled.metadata.clone().into_iter().collect(),
    };
    store.create_session(labelled).await.unwrap();
    let old = store.session(fixture.acme, &session_id("old")).await;
    let old = old.unwrap().unwrap().no;
    talk(&fixture, "old", "a", 2).await;
    end(&fixture, "old", NOW).await;
    for name in ["newer", "active"] {
        fixture.session(name).await;
        talk(&fixture, name, &format!("of_{name}"), 2).await;
    }
    end(&fixture, "newer", later(1)).await;
    assert_eq!(purge(&fixture, ended(NOW), 10).await, Purged::default());
    let gone = purge(&fixture, ended(later(1)), 10).await;
    assert_eq!((gone.sessions, gone.runs, gone.more), (1, 3, false));
    assert_eq!(status(&fixture, "old").await, None);
    assert_eq!(messages(&fixture, old).await, 0);
    let labelled = store.list_sessions(fixture.acme, &filter, page(9)).await;
    assert!(labelled.unwrap().is_empty());
    assert_eq!(status(&fixture, "newer").await, Some(SessionStatus::Ended));
    let active = store.session(fixture.acme, &session_id("active")).await;
    let active = active.unwrap().unwrap();
    assert_eq!(active.status, SessionStatus::Active);
    assert_eq!(messages(&fixture, active.no).await, 2);
}

pub(crate) async fn what_is_purged_leaves_no_row_behind(mut fixture: Fixture) {
    let metadata = Metadata::from([("team".to_owned(), "blue".to_owned())]);
    let mut session = fixture.new_session("s");
    session.metadata = metadata.clone();
    let made = fixture.store().create_thread(session, "k").await;
    assert_eq!(made.unwrap(), ThreadCreated::New);
    let made = fixture
        .store()
        .session(fixture.acme, &session_id("s"))
        .await;
    let answered = NewAgUiRun {
        id: "r".to_owned(),
        body: "{}".to_owned(),
        at: NOW,
        tool_messages: vec![ToolMessageId {
            tool_use_id: "tu_1".to_owned(),
            message_id: "m".to_owned(),
        }],
    };
    let opened = fixture
        .store()
        .open_ag_ui_run(made.unwrap().unwrap().no, answered)
        .await;
    opened.unwrap();
    let mut message = fixture.new_run("a");
    message.session = Some(session_id("s"));
    message.metadata = metadata;
    message.idempotency = Some(key("create:k", 1));
    let run = fixture.create(message).await;
    let lease = fixture.claim(run).await.lease;
    let mut said = ending(RunStatus::Succeeded);
    said.session_messages = vec![says(Role::User, "hi")];
    fixture.commit(lease, finishing(1, said)).await;
    let all = Cutoffs {
        keys: later(1),
        ended: Some(later(1)),
        unused: Some(later(1)),
    };
    purge(&fixture, all, 10).await;
    for table in [
        "sessions",
        "session_specs",
        "messages",
        "labels",
        "runs",
        "run_specs",
        "log",
        "idempotency",
        "threads",
        "ag_ui_runs",
        "tool_messages",
    ] {
        assert_eq!(fixture.rows(table).await, 0, "{table}");
    }
}

pub(crate) async fn a_session_that_nobody_uses_goes_when_it_is_asked_for(fixture: Fixture) {
    let store = fixture.store();
    fixture.session("idle").await;
    talk(&fixture, "idle", "a", 2).await;
    fixture.session("ended").await;
    end(&fixture, "ended", NOW).await;
    let mut used = fixture.new_session("used");
    used.created_at = later(5);
    store.create_session(used).await.unwrap();
    assert_eq!(purge(&fixture, unused(NOW), 10).await, Purged::default());
    assert_eq!(purge(&fixture, keys(later(1)), 10).await.sessions, 0);
    let gone = purge(&fixture, unused(later(1)), 10).await;
    assert_eq!((gone.sessions, gone.runs, gone.more), (2, 0, false));
    assert_eq!(status(&fixture, "idle").await, None);
    assert_eq!(status(&fixture, "used").await, Some(SessionStatus::Active));
    let mut message = fixture.new_run("b");
    message.session = Some(session_id("idle"));
    let refused = store.create_run(message).await.unwrap();
    assert_eq!(refused, Created::NoSession);
}

pub(crate) async fn a_session_with_a_live_run_stays(fixture: Fixture) {
    fixture.session("s").await;
    let run = fixture.message("s", "a").await;
    let lease = fixture.claim(run).await.lease;
    let parked = batch(1, 1, Next::Park { wake_at: None });
    fixture.commit(lease, parked).await;
    end(&fixture, "s", NOW).await;
    let all = Cutoffs {
        ended: Some(later(1)),
        unused: Some(later(1)),
        ..Cutoffs::default()
    };
    assert_eq!(purge(&fixture, all, 10).await, Purged::default());
    let lease = fixture.claim(run).await.lease;
    fixture.finish(lease, 2, RunStatus::Cancelled).await;
    let gone = purge(&fixture, all, 10).await;
    assert_eq!((gone.sessions, gone.runs), (1, 1));
}

pub(crate) async fn runs_outlive_their_session_and_join_no_other(mut fixture: Fixture) {
    let first = fixture.session("s").await;
    talk(&fixture, "s", "a", 2).await;
    assert_eq!(purge(&fixture, unused(later(1)), 10).await.sessions, 1);
    assert_eq!(fixture.row("a").await.session, None);
    fixture.reopen().await;
    let next = fixture.session("next").await;
    assert!(next > first, "{next:?} after {first:?}");
    assert_eq!(fixture.row("a").await.session, None);
    let filter = RunFilter {
        session: Some(session_id("next")),
        ..RunFilter::default()
    };
    let runs = fixture.store().count_runs(fixture.acme, &filter).await;
    assert_eq!(runs.unwrap(), 0);
}

pub(crate) async fn a_long_conversation_goes_in_pieces_and_is_continued_by_nobody(
    fixture: Fixture,
) {
    let session = fixture.session("s").await;
    talk(&fixture, "s", "a", 7).await;
    let first = purge(&fixture, unused(later(1)), 3).await;
    assert_eq!((first.sessions, first.more), (0, true));
    assert_eq!(messages(&fixture, session).await, 4);
    let mut message = fixture.new_run("b");
    message.session = Some(session_id("s"));
    let refused = fixture.store().create_run(message).await.unwrap();
    assert_eq!(refused, Created::SessionEnded);
    let second = purge(&fixture, unused(later(1)), 3).await;
    assert_eq!((second.sessions, second.more), (0, true));
    let third = purge(&fixture, unused(later(1)), 3).await;
    assert_eq!((third.sessions, third.more), (1, false));
    assert_eq!(status(&fixture, "s").await, None);
    assert_eq!(messages(&fixture, session).await, 0);
}

pub(crate) async fn sessions_go_page_by_page(fixture: Fixture) {
    for name in ["a", "b", "c", "d", "e"] {
        fixture.session(name).await;
        end(&fixture, name, NOW).await;
    }
    let mut pages = Vec::new();
    loop {
        let page = purge(&fixture, ended(later(1)), 2).await;
        pages.push(page.sessions);
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, [2, 2, 1]);
}
