//! Documents of workspaces.

use runloom_ports::store::{
    Deleted, Document, DocumentKind, Expect, Millis, Put, PutDocument, Resealed, SealedKey,
    VERSIONS_KEPT, WorkspaceNo,
};
use runloom_protocol::resource::RunStatus;

use crate::fixture::{Fixture, NOW};

fn put(workspace: WorkspaceNo, kind: DocumentKind, slug: &str, body: &str) -> PutDocument {
    PutDocument {
        id: format!("{}_{slug}_{}", kind.as_str(), workspace.0),
        slug: slug.to_owned(),
        kind,
        workspace,
        body: body.to_owned(),
        expect: Expect::Anything,
        limit: 1000,
        now: NOW,
    }
}

fn agent(workspace: WorkspaceNo, slug: &str, body: &str) -> PutDocument {
    put(workspace, DocumentKind::Agent, slug, body)
}

async fn created(fixture: &Fixture, put: PutDocument) -> Document {
    match fixture.store().put_document(put).await.unwrap() {
        Put::Created(document) => document,
        other => panic!("not created: {other:?}"),
    }
}

async fn replaced(fixture: &Fixture, put: PutDocument) -> Document {
    match fixture.store().put_document(put).await.unwrap() {
        Put::Replaced(document) => document,
        other => panic!("not replaced: {other:?}"),
    }
}

pub(crate) async fn a_document_is_found_by_id_and_by_slug(mut fixture: Fixture) {
    let made = created(&fixture, agent(fixture.acme, "support", "{\"a\":1}")).await;
    assert_eq!((made.version, made.created_at), (1, NOW));
    fixture.reopen().await;
    let store = fixture.store();
    for name in ["support", made.id.as_str()] {
        let found = store
            .document(fixture.acme, DocumentKind::Agent, name)
            .await
            .unwrap();
        assert_eq!(found.as_ref(), Some(&made), "{name}");
    }
}

pub(crate) async fn a_document_of_another_workspace_or_kind_is_not_found(fixture: Fixture) {
    let made = created(&fixture, agent(fixture.acme, "support", "{}")).await;
    let store = fixture.store();
    for (workspace, kind) in [
        (fixture.rival, DocumentKind::Agent),
        (fixture.acme, DocumentKind::Tool),
    ] {
        for name in ["support", made.id.as_str()] {
            let found = store.document(workspace, kind, name).await.unwrap();
            assert_eq!(found, None, "{name}");
            let gone = store
                .delete_document(workspace, kind, name, Expect::Anything)
                .await
                .unwrap();
            assert_eq!(gone, Deleted::Unknown);
        }
        let listed = store.documents(workspace, kind).await.unwrap();
        assert!(listed.is_empty());
        let version = store.document_version(workspace, kind, &made.id, 1);
        assert_eq!(version.await.unwrap(), None);
    }
}

pub(crate) async fn a_replaced_document_keeps_its_id_and_gets_the_next_version(fixture: Fixture) {
    let first = created(&fixture, agent(fixture.acme, "support", "{\"v\":1}")).await;
    let mut again = agent(fixture.acme, "support", "{\"v\":2}");
    again.id = "agent_other".to_owned();
    again.now = Millis(NOW.0 + 5);
    let second = replaced(&fixture, again).await;
    assert_eq!((&second.id, second.version), (&first.id, 2));
    assert_eq!(second.body, "{\"v\":2}");
    assert_eq!(second.created_at, NOW);
    assert_eq!(second.updated_at, Millis(NOW.0 + 5));
}

pub(crate) async fn old_versions_of_agents_can_be_read_and_those_of_secrets_cannot(
    fixture: Fixture,
) {
    let store = fixture.store();
    for kind in [DocumentKind::Agent, DocumentKind::Secret] {
        let first = created(&fixture, put(fixture.acme, kind, "x", "{\"v\":1}")).await;
        replaced(&fixture, put(fixture.acme, kind, "x", "{\"v\":2}")).await;
        let version = async |version| {
            let read = store.document_version(fixture.acme, kind, &first.id, version);
            read.await.unwrap().map(|document| document.body)
        };
        assert_eq!(version(2).await.as_deref(), Some("{\"v\":2}"));
        let old = version(1).await;
        assert_eq!(old.is_some(), kind == DocumentKind::Agent);
        assert_eq!(version(3).await, None);
    }
}

pub(crate) async fn only_the_last_versions_are_kept(fixture: Fixture) {
    let made = created(&fixture, agent(fixture.acme, "x", "0")).await;
    let last = VERSIONS_KEPT + 5;
    for version in 2..=last {
        replaced(&fixture, agent(fixture.acme, "x", &version.to_string())).await;
    }
    let store = fixture.store();
    let read = async |version| {
        let kind = DocumentKind::Agent;
        store
            .document_version(fixture.acme, kind, &made.id, version)
            .await
            .unwrap()
    };
    assert!(read(last).await.is_some());
    assert!(read(last - VERSIONS_KEPT).await.is_some());
    assert!(read(last - VERSIONS_KEPT - 1).await.is_none());
}

pub(crate) async fn a_precondition_guards_every_change(fixture: Fixture) {
    let store = fixture.store();
    let with = |expect: Expect| PutDocument {
        expect,
        ..agent(fixture.acme, "x", "{}")
    };
    let exactly = |id: &str, version| Expect::Exactly {
        id: id.to_owned(),
        version,
    };
    for expect in [Expect::Present, exactly("agent_x_1", 1)] {
        let answer = store.put_document(with(expect)).await.unwrap();
        assert_eq!(answer, Put::Mismatch);
    }
    let made = created(&fixture, with(Expect::Absent)).await;
    for expect in [
        Expect::Absent,
        exactly(&made.id, 2),
        exactly("agent_other", 1),
    ] {
        let answer = store.put_document(with(expect.clone())).await.unwrap();
        assert_eq!(answer, Put::Mismatch, "{expect:?}");
        let kind = DocumentKind::Agent;
        let gone = store
            .delete_document(fixture.acme, kind, "x", expect)
            .await
            .unwrap();
        assert_eq!(gone, Deleted::Mismatch);
    }
    replaced(&fixture, with(exactly(&made.id, 1))).await;
    replaced(&fixture, with(Expect::Present)).await;
    let gone = store
        .delete_document(fixture.acme, DocumentKind::Agent, "x", exactly(&made.id, 3))
        .await
        .unwrap();
    assert_eq!(gone, Deleted::Gone);
}

pub(crate) async fn a_deleted_document_is_gone_with_its_versions(fixture: Fixture) {
    let store = fixture.store();
    let kind = DocumentKind::Agent;
    let made = created(&fixture, agent(fixture.acme, "x", "1")).await;
    replaced(&fixture, agent(fixture.acme, "x", "2")).await;
    let gone = store
        .delete_document(fixture.acme, kind, &made.id, Expect::Anything)
        .await
        .unwrap();
    assert_eq!(gone, Deleted::Gone);
    assert_eq!(store.document(fixture.acme, kind, "x").await.unwrap(), None);
    let mut again = agent(fixture.acme, "x", "3");
    again.id = "agent_again".to_owned();
    assert_eq!(created(&fixture, again).await.version, 1);
    let old = store.document_version(fixture.acme, kind, &made.id, 1);
    assert_eq!(old.await.unwrap(), None);
}

pub(crate) async fn documents_come_by_slug_and_no_more_than_allowed(fixture: Fixture) {
    for slug in ["b", "a"] {
        created(&fixture, agent(fixture.acme, slug, "{}")).await;
    }
    let full = PutDocument {
        limit: 2,
        ..agent(fixture.acme, "c", "{}")
    };
    let store = fixture.store();
    assert_eq!(store.put_document(full.clone()).await.unwrap(), Put::Full);
    replaced(
        &fixture,
        PutDocument {
            slug: "a".to_owned(),
            ..full.clone()
        },
    )
    .await;
    created(
        &fixture,
        PutDocument {
            workspace: fixture.rival,
            ..full
        },
    )
    .await;
    let listed = store
        .documents(fixture.acme, DocumentKind::Agent)
        .await
        .unwrap();
    let slugs: Vec<_> = listed
        .iter()
        .map(|document| document.slug.as_str())
        .collect();
    assert_eq!(slugs, ["a", "b"]);
}

pub(crate) async fn sealed_texts_are_listed_once_each_in_any_page_size(fixture: Fixture) {
    created(&fixture, agent(fixture.acme, "x", "agent 1")).await;
    replaced(&fixture, agent(fixture.acme, "x", "agent 2")).await;
    created(
        &fixture,
        put(fixture.rival, DocumentKind::Secret, "S", "secret"),
    )
    .await;
    fixture.session("talk").await;
    fixture.queued("lives").await;
    let over = fixture.started("over").await;
    fixture.finish(over, 2, RunStatus::Succeeded).await;
    let expected = [
        "agent 1",
        "agent 2",
        "secret",
        "{\"sealed\":1}",
        "{\"secret\":\"lives\"}",
    ];
    for size in [1, 2, 100] {
        let mut texts = Vec::new();
        let mut after = None;
        loop {
            let page = fixture.store().sealed(after, size).await.unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            texts.extend(page.into_iter().map(|sealed| sealed.text));
        }
        assert_eq!(texts, expected, "{size}");
    }
    let first = fixture.store().sealed(None, 3).await.unwrap();
    let owner = ("rival".to_owned(), DocumentKind::Secret, "S".to_owned());
    assert_eq!(first[2].owner, Some(owner));
}

pub(crate) async fn resealing_changes_texts_and_nothing_else(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&fixture, agent(fixture.acme, "x", "old")).await;
    replaced(&fixture, agent(fixture.acme, "x", "now")).await;
    fixture.session("talk").await;
    let sealed = store.sealed(None, 10).await.unwrap();
    let mut texts: Vec<Resealed> = sealed
        .into_iter()
        .map(|sealed| Resealed {
            key: sealed.key,
            after: format!("{}!", sealed.text),
            before: sealed.text,
        })
        .collect();
    texts.push(Resealed {
        key: SealedKey::Document(4_711, 1),
        before: "x".to_owned(),
        after: "y".to_owned(),
    });
    let count = texts.len();
    assert_eq!(store.reseal(texts.clone()).await.unwrap(), count - 1);
    // The second time nothing is as it was.
    assert_eq!(store.reseal(texts).await.unwrap(), 0);
    let kind = DocumentKind::Agent;
    let now = store
        .document(fixture.acme, kind, "x")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((now.body.as_str(), now.version), ("now!", 2));
    let old = store.document_version(fixture.acme, kind, &made.id, 1);
    assert_eq!(old.await.unwrap().unwrap().body, "old!");
}

pub(crate) async fn a_setting_is_made_once_and_changed_on_purpose(mut fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.setting("a").await.unwrap(), None);
    assert_eq!(store.setting_or("a", "1").await.unwrap(), "1");
    assert_eq!(store.setting_or("a", "2").await.unwrap(), "1");
    store.put_setting("a", "3").await.unwrap();
    drop(store);
    fixture.reopen().await;
    assert_eq!(
        fixture.store().setting("a").await.unwrap().as_deref(),
        Some("3")
    );
}

pub(crate) async fn the_stamp_changes_with_providers_and_secrets_only(fixture: Fixture) {
    let store = fixture.store();
    let mut seen = vec![store.providers_stamp().await.unwrap()];
    created(&fixture, agent(fixture.acme, "support", "{}")).await;
    assert_eq!(store.providers_stamp().await.unwrap(), seen[0]);
    for kind in [DocumentKind::Provider, DocumentKind::Secret] {
        let first = put(fixture.acme, kind, "house", "{}");
        created(&fixture, first).await;
        seen.push(store.providers_stamp().await.unwrap());
        let second = put(fixture.acme, kind, "house", "{\"a\":1}");
        replaced(&fixture, second).await;
        seen.push(store.providers_stamp().await.unwrap());
    }
    for kind in [DocumentKind::Provider, DocumentKind::Secret] {
        let expect = Expect::Anything;
        let deleted = store.delete_document(fixture.acme, kind, "house", expect);
        assert_eq!(deleted.await.unwrap(), Deleted::Gone);
        seen.push(store.providers_stamp().await.unwrap());
    }
    // The last one is as the first: there are none again.
    let different: std::collections::BTreeSet<_> = seen[..6].iter().collect();
    assert_eq!(different.len(), 6, "{seen:?}");
}
