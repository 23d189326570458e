//! Lists of runs and sessions.

use runloom_ports::store::{PREVIEW_CHARS, Page, RunFilter, SessionFilter, WorkspaceNo};
use runloom_protocol::resource::{RunStatus, SessionStatus};

use crate::fixture::{Fixture, NOW, ending, finishing, page, session_id};

fn labels<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
    let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// Names of the runs, and that the count says the same.
async fn names(fixture: &Fixture, workspace: WorkspaceNo, filter: &RunFilter) -> Vec<String> {
    let store = fixture.store();
    let rows = store.list_runs(workspace, filter, page(100)).await.unwrap();
    let count = store.count_runs(workspace, filter).await.unwrap();
    assert_eq!(count, rows.len() as u64);
    let name = |id: &str| id.trim_start_matches("run_").to_owned();
    rows.iter().map(|row| name(row.id.as_str())).collect()
}

pub(crate) async fn runs_come_newest_first_in_pages(fixture: Fixture) {
    let mut numbers = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        numbers.insert(0, fixture.queued(name).await);
    }
    let read = async |before: Option<i64>, offset, limit| -> Vec<_> {
        let page = Page {
            before,
            offset,
            limit,
        };
        let filter = RunFilter::default();
        let rows = fixture.store().list_runs(fixture.acme, &filter, page).await;
        rows.unwrap().into_iter().map(|row| row.no).collect()
    };
    assert_eq!(read(None, 0, 10).await, numbers);
    assert_eq!(read(None, 0, 2).await, numbers[..2]);
    assert_eq!(read(Some(numbers[1].0), 0, 2).await, numbers[2..4]);
    assert_eq!(read(Some(numbers[1].0), 1, 9).await, numbers[3..]);
    assert_eq!(read(None, 4, 9).await, numbers[4..]);
    assert!(read(Some(numbers[4].0), 0, 9).await.is_empty());
}

pub(crate) async fn runs_are_filtered_by_each_field(fixture: Fixture) {
    let mut run = fixture.new_run("a");
    run.model_id = "oa/gpt".to_owned();
    fixture.create(run).await;
    let mut run = fixture.new_run("b");
    run.agent_id = Some("agent_1".to_owned());
    fixture.create(run).await;
    fixture.started("c").await;
    let all = RunFilter::default();
    let model = RunFilter {
        model_id: Some("oa/gpt".to_owned()),
        ..all.clone()
    };
    let agent = RunFilter {
        agent_id: Some("agent_1".to_owned()),
        ..all.clone()
    };
    let running = RunFilter {
        status: Some(RunStatus::Running),
        ..all.clone()
    };
    let none = RunFilter {
        status: Some(RunStatus::Running),
        ..model.clone()
    };
    assert_eq!(names(&fixture, fixture.acme, &all).await, ["c", "b", "a"]);
    assert_eq!(names(&fixture, fixture.acme, &model).await, ["a"]);
    assert_eq!(names(&fixture, fixture.acme, &agent).await, ["b"]);
    assert_eq!(names(&fixture, fixture.acme, &running).await, ["c"]);
    assert!(names(&fixture, fixture.acme, &none).await.is_empty());
}

pub(crate) async fn runs_are_filtered_by_all_labels_together(fixture: Fixture) {
    let runs = [
        ("a", labels(&[("team", "blue"), ("user", "1")])),
        ("b", labels(&[("team", "blue"), ("user", "2")])),
        ("c", labels(&[("user", "blue"), ("team", "'1\"")])),
    ];
    for (name, metadata) in runs {
        let mut run = fixture.new_run(name);
        run.metadata = metadata;
        fixture.create(run).await;
    }
    let by = |pairs: &[(&str, &str)]| RunFilter {
        metadata: labels(pairs),
        ..RunFilter::default()
    };
    let acme = fixture.acme;
    let both = by(&[("team", "blue"), ("user", "2")]);
    assert_eq!(
        names(&fixture, acme, &by(&[("team", "blue")])).await,
        ["b", "a"]
    );
    assert_eq!(names(&fixture, acme, &both).await, ["b"]);
    assert_eq!(names(&fixture, acme, &by(&[("team", "'1\"")])).await, ["c"]);
    // No run has two values of one label.
    for none in [
        by(&[("team", "red")]),
        by(&[("team", "red"), ("team", "blue")]),
    ] {
        assert!(names(&fixture, acme, &none).await.is_empty());
    }
}

pub(crate) async fn a_list_shows_a_run_with_the_beginning_of_its_answer(fixture: Fixture) {
    let mut new = fixture.new_run("a");
    new.spec_name = Some("helper".to_owned());
    new.agent_id = Some("agent_1".to_owned());
    new.metadata = labels(&[("team", "blue")]);
    fixture.session("s").await;
    new.session = Some(session_id("s"));
    let run = fixture.create(new.clone()).await;
    let only = async || {
        let filter = RunFilter::default();
        let store = fixture.store();
        let rows = store.list_runs(fixture.acme, &filter, page(9)).await;
        rows.unwrap().remove(0)
    };
    let queued = only().await;
    assert_eq!((queued.no, &queued.id), (run, &new.id));
    assert_eq!(queued.status, RunStatus::Queued);
    assert_eq!(queued.session, new.session);
    assert_eq!(queued.metadata, new.metadata);
    assert_eq!(queued.spec_name, new.spec_name);
    assert_eq!(queued.agent_id, new.agent_id);
    assert_eq!(queued.model_id, new.model_id);
    assert_eq!(queued.input_preview, new.input_preview);
    assert_eq!((queued.output_preview, queued.turns), (None, None));
    let lease = fixture.claim(run).await.lease;
    // Letters of every length in UTF-8, and one that PostgreSQL stores as two.
    let answer = "aä€😀\0".repeat(PREVIEW_CHARS);
    let mut end = ending(RunStatus::Failed);
    end.final_text = Some(answer.clone());
    end.error = Some("broken".to_owned());
    end.tool_calls = 3;
    fixture.commit(lease, finishing(1, end.clone())).await;
    let ended = only().await;
    let beginning: String = answer.chars().take(PREVIEW_CHARS).collect();
    assert_eq!(ended.output_preview, Some(beginning));
    assert_eq!((ended.error, ended.tool_calls), (end.error, 3));
    assert_eq!((ended.tokens, ended.turns), (Some(end.tokens), Some(1)));
    assert_eq!((ended.created_at, ended.started_at), (NOW, Some(NOW)));
    assert_eq!(ended.completed_at, Some(NOW));
    assert_eq!(fixture.row("a").await.final_text, Some(answer));
}

pub(crate) async fn runs_of_one_session_are_listed(fixture: Fixture) {
    fixture.session("s").await;
    fixture.message("s", "a").await;
    fixture.queued("b").await;
    fixture.message("s", "c").await;
    let filter = RunFilter {
        session: Some(session_id("s")),
        ..RunFilter::default()
    };
    assert_eq!(names(&fixture, fixture.acme, &filter).await, ["c", "a"]);
    assert!(names(&fixture, fixture.rival, &filter).await.is_empty());
    assert_eq!(fixture.row("a").await.session, Some(session_id("s")));
    assert_eq!(fixture.row("b").await.session, None);
}

pub(crate) async fn lists_show_one_workspace_only(fixture: Fixture) {
    let blue = [("team", "blue")];
    for (name, workspace) in [("a", fixture.acme), ("b", fixture.rival)] {
        let mut run = fixture.new_run(name);
        run.workspace = workspace;
        run.metadata = labels(&blue);
        fixture.create(run).await;
    }
    let filter = RunFilter {
        metadata: labels(&blue),
        ..RunFilter::default()
    };
    assert_eq!(names(&fixture, fixture.acme, &filter).await, ["a"]);
    assert_eq!(names(&fixture, fixture.rival, &filter).await, ["b"]);
    fixture.session("s").await;
    let foreign = fixture
        .store()
        .list_sessions(fixture.rival, &SessionFilter::default(), page(9))
        .await;
    assert!(foreign.unwrap().is_empty());
}

pub(crate) async fn sessions_come_newest_first_in_pages(fixture: Fixture) {
    let mut numbers = Vec::new();
    for name in ["a", "b", "c"] {
        numbers.insert(0, fixture.session(name).await);
    }
    let read = async |before: Option<i64>, limit| -> Vec<_> {
        let page = Page {
            before,
            offset: 0,
            limit,
        };
        let filter = SessionFilter::default();
        let rows = fixture
            .store()
            .list_sessions(fixture.acme, &filter, page)
            .await;
        rows.unwrap().into_iter().map(|row| row.no).collect()
    };
    assert_eq!(read(None, 2).await, numbers[..2]);
    assert_eq!(read(Some(numbers[1].0), 2).await, numbers[2..]);
}

pub(crate) async fn sessions_are_filtered_by_status_and_labels(fixture: Fixture) {
    let store = fixture.store();
    let mut labelled = fixture.new_session("a");
    labelled.metadata = labels(&[("team", "blue")]);
    store.create_session(labelled).await.unwrap();
    fixture.session("b").await;
    store
        .end_session(fixture.acme, &session_id("b"), NOW)
        .await
        .unwrap();
    let ids = async |filter: SessionFilter| -> Vec<_> {
        let rows = store.list_sessions(fixture.acme, &filter, page(9)).await;
        let rows = rows.unwrap();
        let count = store.count_sessions(fixture.acme, &filter).await.unwrap();
        assert_eq!(count, rows.len() as u64);
        rows.into_iter().map(|row| row.id).collect()
    };
    let by_status = |status| SessionFilter {
        visible_to: None,
        status: Some(status),
        metadata: Vec::new(),
    };
    assert_eq!(
        ids(by_status(SessionStatus::Active)).await,
        [session_id("a")]
    );
    assert_eq!(
        ids(by_status(SessionStatus::Ended)).await,
        [session_id("b")]
    );
    let blue = SessionFilter {
        visible_to: None,
        status: None,
        metadata: labels(&[("team", "blue")]),
    };
    assert_eq!(ids(blue).await, [session_id("a")]);
}
