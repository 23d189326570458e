//! Feedback: one for a run, replaced, listed, and gone with its run.

use runloom_ports::store::{
    Cutoffs, FeedbackFilter, FeedbackPage, FeedbackPut, Millis, Page, PutFeedback, WorkspaceNo,
};
use runloom_protocol::id::FeedbackId;
use runloom_protocol::resource::RunStatus;
use runloom_protocol::spec::Verdict;

use crate::fixture::{Fixture, NOW, run_id, session_id};

const ALL: Page = Page {
    before: None,
    offset: 0,
    limit: 100,
};

fn said(fixture: &Fixture, run: &str, id: &str, verdict: Verdict) -> PutFeedback {
    PutFeedback {
        id: FeedbackId::from_suffix(id),
        workspace: fixture.acme,
        run: run_id(run),
        verdict,
        explanation: Some("because\0".to_owned()),
        snapshot: None,
        now: NOW,
    }
}

async fn put(fixture: &Fixture, said: PutFeedback) -> FeedbackPut {
    fixture.store().put_feedback(said).await.unwrap()
}

async fn list(fixture: &Fixture, workspace: WorkspaceNo, filter: &FeedbackFilter) -> Vec<String> {
    let store = fixture.store();
    let page = store.list_feedback(workspace, filter, ALL, 1 << 20).await;
    let FeedbackPage { rows, cut } = page.unwrap();
    assert!(!cut);
    let count = store.count_feedback(workspace, filter).await.unwrap();
    assert_eq!(count, rows.len() as u64);
    rows.into_iter().map(|row| row.id.to_string()).collect()
}

pub(crate) async fn a_runs_feedback_is_replaced_and_keeps_its_id(mut fixture: Fixture) {
    fixture.started("a").await;
    let first = said(&fixture, "a", "1", Verdict::Up);
    assert_eq!(put(&fixture, first.clone()).await, FeedbackPut::New);
    let second = PutFeedback {
        explanation: None,
        snapshot: Some("what I saw".to_owned()),
        now: Millis(NOW.0 + 5),
        ..said(&fixture, "a", "2", Verdict::Down)
    };
    let replaced = FeedbackPut::Replaced(first.id.clone());
    assert_eq!(put(&fixture, second).await, replaced);
    fixture.reopen().await;
    let found = fixture
        .store()
        .list_feedback(fixture.acme, &FeedbackFilter::default(), ALL, 1)
        .await;
    let rows = found.unwrap().rows;
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!((&row.id, &row.run), (&first.id, &run_id("a")));
    assert_eq!((row.verdict, &row.explanation), (Verdict::Down, &None));
    assert_eq!(row.snapshot.as_deref(), Some("what I saw"));
    assert_eq!((row.created_at, row.updated_at), (NOW, Millis(NOW.0 + 5)));
}

pub(crate) async fn feedback_on_another_workspaces_run_finds_no_run(fixture: Fixture) {
    fixture.started("a").await;
    let mut foreign = said(&fixture, "a", "1", Verdict::Up);
    foreign.workspace = fixture.rival;
    assert_eq!(put(&fixture, foreign).await, FeedbackPut::UnknownRun);
    let unknown = said(&fixture, "nobody", "1", Verdict::Up);
    assert_eq!(put(&fixture, unknown).await, FeedbackPut::UnknownRun);
    put(&fixture, said(&fixture, "a", "1", Verdict::Up)).await;
    let none = FeedbackFilter::default();
    assert!(list(&fixture, fixture.rival, &none).await.is_empty());
    assert_eq!(list(&fixture, fixture.acme, &none).await, ["fb_1"]);
}

pub(crate) async fn feedback_is_filtered_by_each_field(fixture: Fixture) {
    fixture.session("s").await;
    fixture.message("s", "a").await;
    let mut agents = fixture.new_run("b");
    agents.agent_id = Some("agent_x".to_owned());
    fixture.store().create_run(agents).await.unwrap();
    put(&fixture, said(&fixture, "a", "1", Verdict::Up)).await;
    put(&fixture, said(&fixture, "b", "2", Verdict::Down)).await;
    let none = FeedbackFilter::default();
    let filters = [
        (none.clone(), vec!["fb_2", "fb_1"]),
        (
            FeedbackFilter {
                verdict: Some(Verdict::Up),
                ..none.clone()
            },
            vec!["fb_1"],
        ),
        (
            FeedbackFilter {
                run: Some(run_id("b")),
                ..none.clone()
            },
            vec!["fb_2"],
        ),
        (
            FeedbackFilter {
                session: Some(session_id("s")),
                ..none.clone()
            },
            vec!["fb_1"],
        ),
        (
            FeedbackFilter {
                agent_id: Some("agent_x".to_owned()),
                ..none.clone()
            },
            vec!["fb_2"],
        ),
        (
            FeedbackFilter {
                verdict: Some(Verdict::Up),
                run: Some(run_id("b")),
                ..none
            },
            vec![],
        ),
    ];
    for (filter, wanted) in filters {
        let found = list(&fixture, fixture.acme, &filter).await;
        assert_eq!(found, wanted, "{filter:?}");
    }
}

pub(crate) async fn pages_of_feedback_are_bounded_in_number_and_bytes(fixture: Fixture) {
    for (run, id) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        fixture.started(run).await;
        let mut long = said(&fixture, run, id, Verdict::Up);
        long.explanation = Some("x".repeat(100));
        put(&fixture, long).await;
    }
    let store = fixture.store();
    let page = async |before: Option<i64>, limit: usize, bytes: usize| {
        let page = Page {
            before,
            offset: 0,
            limit,
        };
        let none = FeedbackFilter::default();
        let found = store.list_feedback(fixture.acme, &none, page, bytes).await;
        let FeedbackPage { rows, cut } = found.unwrap();
        let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
        (ids, cut, rows.last().map(|row| row.no))
    };
    let (ids, cut, last) = page(None, 3, 1 << 20).await;
    assert_eq!((ids.join(" "), cut), ("fb_4 fb_3 fb_2".to_owned(), false));
    let (ids, cut, _) = page(last, 3, 1 << 20).await;
    assert_eq!((ids.join(" "), cut), ("fb_1".to_owned(), false));
    let (ids, cut, last) = page(None, 100, 250).await;
    assert_eq!((ids.join(" "), cut), ("fb_4 fb_3".to_owned(), true));
    let (ids, cut, _) = page(last, 100, 10).await;
    assert_eq!(
        (ids.join(" "), cut),
        ("fb_2".to_owned(), true),
        "one at least"
    );
}

pub(crate) async fn feedback_goes_with_its_run(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.started("b").await;
    put(&fixture, said(&fixture, "a", "1", Verdict::Up)).await;
    put(&fixture, said(&fixture, "b", "2", Verdict::Up)).await;
    fixture.finish(lease, 2, RunStatus::Succeeded).await;
    let later = Millis(NOW.0 + 1);
    let old = Cutoffs {
        keys: later,
        ended: Some(later),
        unused: None,
    };
    assert_eq!(fixture.store().purge(old, 100).await.unwrap().runs, 1);
    let none = FeedbackFilter::default();
    assert_eq!(list(&fixture, fixture.acme, &none).await, ["fb_2"]);
}
