//! Creating runs.

use runloom_ports::store::{Created, Earlier, RunFilter};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW, chunk, ending, finishing, key, page, run_id, start};

pub(crate) async fn a_new_run_is_queued_and_claimable(fixture: Fixture) {
    let mut new = fixture.new_run("a");
    new.spec_name = Some("helper".to_owned());
    new.agent_id = Some("agent_1".to_owned());
    new.metadata.insert("team".to_owned(), "blue".to_owned());
    let created = fixture.store().create_run(new.clone()).await.unwrap();
    let Created::New {
        run,
        lease: None,
        blocked: false,
    } = created
    else {
        panic!("{created:?}");
    };
    assert_eq!(fixture.claimable(NOW).await, [run]);
    let row = fixture.row("a").await;
    assert_eq!(row.no, run);
    assert_eq!(row.status, RunStatus::Queued);
    assert_eq!(row.public_spec, new.public_spec);
    assert_eq!(row.input_preview, new.input_preview);
    assert_eq!(row.metadata, new.metadata);
    assert_eq!(row.agent_id, new.agent_id);
    assert_eq!(row.created_at, NOW);
    assert_eq!((row.started_at, row.completed_at), (None, None));
}

pub(crate) async fn a_started_run_has_its_lease_and_first_event(fixture: Fixture) {
    let lease = fixture.started("a").await;
    assert_eq!(lease.epoch, 1);
    let row = fixture.row("a").await;
    assert_eq!(row.status, RunStatus::Running);
    assert_eq!(row.started_at, Some(NOW));
    let log = fixture.store().read_log(lease.run, 0, 1 << 20).await;
    assert_eq!(log.unwrap(), [chunk(1, 1)]);
    assert!(fixture.claimable(NOW).await.is_empty());
    assert!(fixture.try_claim(lease.run, NOW).await.is_none());
}

pub(crate) async fn another_workspaces_run_is_not_found(fixture: Fixture) {
    fixture.queued("a").await;
    let found = fixture.store().run(fixture.rival, &run_id("a")).await;
    assert!(found.unwrap().is_none());
}

pub(crate) async fn text_with_a_nul_comes_back_whole(fixture: Fixture) {
    let odd = "a\0b\u{1a}c";
    let mut new = fixture.new_run("a");
    new.input_preview = odd.to_owned();
    new.agent_id = Some(odd.to_owned());
    new.metadata.insert("team".to_owned(), odd.to_owned());
    let filter = RunFilter {
        agent_id: new.agent_id.clone(),
        metadata: new.metadata.clone().into_iter().collect(),
        ..RunFilter::default()
    };
    let run = fixture.create(new).await;
    let lease = fixture.claim(run).await.lease;
    let mut end = ending(RunStatus::Failed);
    end.final_text = Some(odd.to_owned());
    end.error = Some(odd.to_owned());
    fixture.commit(lease, finishing(1, end)).await;
    let found = fixture
        .store()
        .list_runs(fixture.acme, &filter, page(9))
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].input_preview, odd);
    assert!(
        found[0]
            .metadata
            .iter()
            .eq(filter.metadata.iter().map(|(label, value)| (label, value)))
    );
    assert_eq!(found[0].output_preview.as_deref(), Some(odd));
    assert_eq!(found[0].error.as_deref(), Some(odd));
}

pub(crate) async fn an_idempotency_key_replays_the_first_run(mut fixture: Fixture) {
    let mut first = fixture.new_run("a");
    first.idempotency = Some(key("create:k", 1));
    fixture.create(first).await;
    fixture.reopen().await;
    let mut second = fixture.new_run("b");
    second.idempotency = Some(key("create:k", 1));
    second.start = Some(start());
    let replayed = fixture.store().create_run(second).await.unwrap();
    assert_eq!(replayed, Created::Replayed(run_id("a")));
    let filter = RunFilter::default();
    let count = fixture.store().count_runs(fixture.acme, &filter).await;
    assert_eq!(count.unwrap(), 1);
}

pub(crate) async fn an_idempotency_key_with_another_body_is_refused(fixture: Fixture) {
    let mut first = fixture.new_run("a");
    first.idempotency = Some(key("create:k", 1));
    fixture.create(first).await;
    let mut second = fixture.new_run("b");
    second.idempotency = Some(key("create:k", 2));
    let refused = fixture.store().create_run(second).await.unwrap();
    assert_eq!(refused, Created::KeyReused);
    let missing = fixture.store().run(fixture.acme, &run_id("b")).await;
    assert!(missing.unwrap().is_none());
}

pub(crate) async fn idempotency_keys_of_workspaces_do_not_meet(fixture: Fixture) {
    for (name, workspace) in [("a", fixture.acme), ("b", fixture.rival)] {
        let mut run = fixture.new_run(name);
        run.workspace = workspace;
        run.idempotency = Some(key("create:k", 1));
        fixture.create(run).await;
    }
}

pub(crate) async fn an_id_that_exists_is_refused_and_changes_nothing(fixture: Fixture) {
    fixture.queued("a").await;
    let mut twin = fixture.new_run("a");
    twin.idempotency = Some(key("create:k", 1));
    assert!(fixture.store().create_run(twin).await.is_err());
    let mut other = fixture.new_run("b");
    other.idempotency = Some(key("create:k", 2));
    fixture.create(other).await;
}

pub(crate) async fn a_key_tells_what_it_was_used_for(fixture: Fixture) {
    let store = fixture.store();
    let earlier = |name: &str, body| {
        let (store, key) = (fixture.store(), key(name, body));
        async move { store.earlier(fixture.acme, &key).await.unwrap() }
    };
    assert_eq!(earlier("create_run:k", 1).await, Earlier::None);
    let mut run = fixture.new_run("a");
    run.idempotency = Some(key("create_run:k", 1));
    fixture.create(run).await;
    let first = Earlier::Same(run_id("a").to_string());
    assert_eq!(earlier("create_run:k", 1).await, first);
    let other = Earlier::OtherBody(run_id("a").to_string());
    assert_eq!(earlier("create_run:k", 2).await, other);
    assert_eq!(earlier("create_session:k", 1).await, Earlier::None);
    let rival = store.earlier(fixture.rival, &key("create_run:k", 1)).await;
    assert_eq!(rival.unwrap(), Earlier::None);
}
