//! Runs below runs: created with their parent's batch, told and stopped by batches, listed and purged with their root.

use runloom_ports::store::{
    CommitError, Cutoffs, Delivery, Lease, MailBody, MailNo, Millis, NewSubRun, Next, OutgoingMail,
    RunFilter, RunNo, SubRuns, TreeFilter,
};
use runloom_protocol::outcome::{SubagentUsage, Tokens};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW, WORKER, batch, ending, finishing, page, run_id, start};

const MOST: u32 = 4;

fn child(name: &str) -> NewSubRun {
    NewSubRun {
        id: run_id(name),
        tool_use_id: format!("tu_{name}"),
        spec: "{\"sealed\":1}".to_owned(),
        public_spec: "{\"open\":1}".to_owned(),
        spec_name: "librarian".to_owned(),
        agent_id: None,
        model_id: "platform:demo".to_owned(),
        input_preview: "Find it".to_owned(),
    }
}

/// Creates children below a run whose log ends at `seq`, and returns their numbers.
async fn create(
    fixture: &Fixture,
    parent: Lease,
    seq: u64,
    root: RunNo,
    names: &[&str],
) -> Result<Vec<RunNo>, CommitError> {
    let mut creating = batch(seq + 1, seq + 1, Next::Keep);
    creating.sub_runs = SubRuns {
        root,
        max_below_root: MOST,
        new: names.iter().map(|name| child(name)).collect(),
    };
    let committed = fixture.try_commit(parent, creating).await?;
    let created = committed
        .deliveries
        .into_iter()
        .map(|delivery| match delivery {
            Delivery::Queue(run) => run,
            Delivery::Owner(run) => panic!("nobody can hold {run:?}"),
        });
    Ok(created.collect())
}

fn note(to: RunNo) -> OutgoingMail {
    let reason = "note".to_owned();
    let body = MailBody::ToolResult {
        tool_use_id: reason,
        answer: runloom_protocol::spec::ToolAnswer::Result("x".to_owned()),
        files: Vec::new(),
    };
    OutgoingMail { to, body }
}

async fn bodies(fixture: &Fixture, run: RunNo) -> Vec<MailBody> {
    let mail = fixture.store().mail(run, MailNo::default()).await;
    mail.unwrap().into_iter().map(|mail| mail.body).collect()
}

async fn listed(fixture: &Fixture, tree: TreeFilter) -> Vec<String> {
    let filter = RunFilter {
        tree,
        ..RunFilter::default()
    };
    let found = fixture
        .store()
        .list_runs(fixture.acme, &filter, page(50))
        .await;
    let found = found.unwrap();
    let counted = fixture.store().count_runs(fixture.acme, &filter).await;
    assert_eq!(counted.unwrap(), found.len() as u64);
    found.iter().map(|run| run.id.to_string()).collect()
}

pub(crate) async fn a_child_belongs_to_its_parents_tree(fixture: Fixture) {
    let mut new = fixture.new_run("a");
    new.metadata.insert("team".to_owned(), "x".to_owned());
    new.start = Some(start());
    fixture.create(new).await;
    let root = Lease {
        run: fixture.row("a").await.no,
        epoch: 1,
    };
    let made = create(&fixture, root, 1, root.run, &["b"]).await.unwrap();
    assert_eq!(fixture.claimable(NOW).await, made);
    let claim = fixture.claim(made[0]).await;
    assert_eq!(claim.spec, "{\"sealed\":1}");
    assert_eq!((claim.created_at, claim.in_session), (NOW, false));
    create(&fixture, claim.lease, 0, root.run, &["c"])
        .await
        .unwrap();

    let (above, below) = (fixture.row("b").await, fixture.row("c").await);
    let lineage = below.lineage.unwrap();
    assert_eq!((lineage.parent, lineage.root), (run_id("b"), run_id("a")));
    assert_eq!((lineage.tool_use_id.as_str(), lineage.depth), ("tu_c", 2));
    assert_eq!(above.lineage.unwrap().depth, 1);
    assert_eq!(above.metadata["team"], "x");
    assert!(fixture.row("a").await.lineage.is_none());
    let filter = RunFilter {
        metadata: vec![("team".to_owned(), "x".to_owned())],
        tree: TreeFilter::All,
        ..RunFilter::default()
    };
    let labelled = fixture
        .store()
        .list_runs(fixture.acme, &filter, page(9))
        .await;
    assert_eq!(labelled.unwrap().len(), 3);
}

pub(crate) async fn a_child_is_created_once(fixture: Fixture) {
    let root = fixture.started("a").await;
    assert_eq!(
        create(&fixture, root, 1, root.run, &["b"])
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        create(&fixture, root, 2, root.run, &["b"])
            .await
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        listed(&fixture, TreeFilter::ChildrenOf(run_id("a")))
            .await
            .len(),
        1
    );
}

pub(crate) async fn a_refused_batch_creates_no_child(fixture: Fixture) {
    let root = fixture.started("a").await;
    let old = Lease { epoch: 0, ..root };
    let refused = create(&fixture, old, 1, root.run, &["b"]).await;
    assert!(matches!(refused, Err(CommitError::Fenced)));
    assert!(
        fixture
            .store()
            .run(fixture.acme, &run_id("b"))
            .await
            .unwrap()
            .is_none()
    );
}

pub(crate) async fn a_root_has_room_for_so_many_runs(fixture: Fixture) {
    let root = fixture.started("a").await;
    let made = create(&fixture, root, 1, root.run, &["b", "c"])
        .await
        .unwrap();
    let below = fixture.claim(made[0]).await.lease;
    create(&fixture, below, 0, root.run, &["d"]).await.unwrap();
    fixture.finish(below, 2, RunStatus::Succeeded).await;
    // Runs that have ended count too.
    let refused = create(&fixture, root, 2, root.run, &["e", "f"]).await;
    assert!(matches!(
        refused,
        Err(CommitError::TooManySubRuns { room: 1 })
    ));
    assert_eq!(fixture.seqs(root.run).await, [(1, 1), (2, 2)]);
    create(&fixture, root, 2, root.run, &["e"]).await.unwrap();
    let refused = create(&fixture, root, 3, root.run, &["f"]).await;
    assert!(matches!(
        refused,
        Err(CommitError::TooManySubRuns { room: 0 })
    ));
}

pub(crate) async fn mail_wakes_a_parked_run(fixture: Fixture) {
    let (parked, sender) = (fixture.started("a").await, fixture.started("b").await);
    fixture
        .commit(parked, batch(2, 2, Next::Park { wake_at: None }))
        .await;
    let mut telling = batch(2, 2, Next::Keep);
    telling.mail = vec![note(parked.run)];
    let committed = fixture.commit(sender, telling).await;
    assert_eq!(committed.deliveries, [Delivery::Queue(parked.run)]);
    assert_eq!(fixture.claimable(NOW).await, [parked.run]);
    assert_eq!(fixture.claim(parked.run).await.mail.len(), 1);
}

pub(crate) async fn mail_to_a_held_run_goes_to_its_owner(fixture: Fixture) {
    let (held, sender) = (fixture.started("a").await, fixture.started("b").await);
    let mut telling = batch(2, 2, Next::Keep);
    telling.mail = vec![note(held.run), note(held.run)];
    let committed = fixture.commit(sender, telling).await;
    assert_eq!(committed.deliveries, [Delivery::Owner(held.run); 2]);
    assert_eq!(bodies(&fixture, held.run).await.len(), 2);
    assert_eq!(fixture.store().unheard(WORKER).await.unwrap(), [held.run]);
}

pub(crate) async fn mail_to_an_ended_run_is_dropped(fixture: Fixture) {
    let (ended, sender) = (fixture.started("a").await, fixture.started("b").await);
    fixture.finish(ended, 2, RunStatus::Succeeded).await;
    let mut telling = batch(2, 2, Next::Keep);
    telling.mail = vec![note(ended.run), note(RunNo(99_999))];
    let committed = fixture.commit(sender, telling).await;
    assert!(committed.deliveries.is_empty());
    assert!(bodies(&fixture, ended.run).await.is_empty());
}

pub(crate) async fn the_end_of_a_child_and_its_mail_are_one(fixture: Fixture) {
    let root = fixture.started("a").await;
    let made = create(&fixture, root, 1, root.run, &["b"]).await.unwrap();
    fixture
        .commit(root, batch(3, 3, Next::Park { wake_at: None }))
        .await;
    let below = fixture.claim(made[0]).await.lease;
    let mut end = ending(RunStatus::Succeeded);
    end.subagents = Some(SubagentUsage {
        runs: 2,
        tokens: Tokens::default(),
        turns: 3,
        cost_usd: Some(0.5),
    });
    let mut last = finishing(1, end.clone());
    last.mail = vec![note(root.run)];
    let stale = Lease { epoch: 9, ..below };
    assert!(fixture.try_commit(stale, last.clone()).await.is_err());
    assert!(bodies(&fixture, root.run).await.is_empty());
    let committed = fixture.commit(below, last).await;
    assert_eq!(committed.deliveries, [Delivery::Queue(root.run)]);
    assert_eq!(bodies(&fixture, root.run).await.len(), 1);
    assert_eq!(fixture.row("b").await.subagents, end.subagents);
}

pub(crate) async fn stopping_reaches_every_live_run_below(fixture: Fixture) {
    let root = fixture.started("a").await;
    let made = create(&fixture, root, 1, root.run, &["b", "c"])
        .await
        .unwrap();
    let below = fixture.claim(made[0]).await.lease;
    let deep = create(&fixture, below, 0, root.run, &["d"]).await.unwrap();
    let ended = fixture.claim(made[1]).await.lease;
    fixture.finish(ended, 1, RunStatus::Succeeded).await;
    let mut stopping = batch(3, 3, Next::Keep);
    stopping.stop_below = Some("parent_cancelled".to_owned());
    let committed = fixture.commit(root, stopping.clone()).await;
    let told = [Delivery::Owner(below.run), Delivery::Queue(deep[0])];
    assert_eq!(committed.deliveries, told);
    let body = MailBody::Cancel {
        reason: "parent_cancelled".to_owned(),
    };
    assert_eq!(bodies(&fixture, deep[0]).await, std::slice::from_ref(&body));
    assert_eq!(bodies(&fixture, below.run).await, [body]);
    // Once is enough.
    stopping.chunk = crate::fixture::chunk(4, 4);
    assert!(fixture.commit(root, stopping).await.deliveries.is_empty());
}

pub(crate) async fn lists_show_roots_unless_asked(fixture: Fixture) {
    let root = fixture.started("a").await;
    let made = create(&fixture, root, 1, root.run, &["b"]).await.unwrap();
    let below = fixture.claim(made[0]).await.lease;
    create(&fixture, below, 0, root.run, &["c"]).await.unwrap();
    assert_eq!(listed(&fixture, TreeFilter::Roots).await, ["run_a"]);
    assert_eq!(listed(&fixture, TreeFilter::All).await.len(), 3);
    let children = TreeFilter::ChildrenOf(run_id("a"));
    assert_eq!(listed(&fixture, children).await, ["run_b"]);
    let tree = TreeFilter::Below(run_id("a"));
    assert_eq!(listed(&fixture, tree).await, ["run_c", "run_b"]);
}

pub(crate) async fn children_are_purged_with_their_root(mut fixture: Fixture) {
    let root = fixture.started("a").await;
    let made = create(&fixture, root, 1, root.run, &["b"]).await.unwrap();
    let old = Cutoffs {
        keys: Millis(0),
        ended: Some(Millis(NOW.0 + 1)),
        unused: None,
    };
    let below = fixture.claim(made[0]).await.lease;
    fixture.finish(below, 1, RunStatus::Succeeded).await;
    assert_eq!(fixture.store().purge(old, 9).await.unwrap().runs, 0);
    fixture.finish(root, 3, RunStatus::Succeeded).await;
    assert_eq!(fixture.store().purge(old, 9).await.unwrap().runs, 1);
    for table in ["runs", "run_specs", "log", "mail"] {
        assert_eq!(fixture.rows(table).await, 0, "{table}");
    }
}
