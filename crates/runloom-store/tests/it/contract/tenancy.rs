//! Workspaces and keys.

use runloom_ports::store::{KeyUsage, Millis, NewKey, WorkspaceNo, WorkspaceRow};
use runloom_protocol::id::KeyId;

use crate::fixture::{Fixture, NOW, put_workspace};

fn new_key(workspace: WorkspaceNo, name: &str, hash: u8) -> NewKey {
    NewKey {
        act_for_owners: false,
        id: KeyId::from_suffix(name),
        workspace,
        name: name.to_owned(),
        prefix: "mantyx_abc".to_owned(),
        hash: [hash; 32],
        usage: KeyUsage::DeveloperApi,
        agent_ids: vec!["agent_1".to_owned()],
        runs_per_minute: Some(7),
    }
}

pub(crate) async fn a_workspace_put_again_is_updated(mut fixture: Fixture) {
    let changed = WorkspaceRow {
        no: WorkspaceNo(4_711),
        slug: "acme".to_owned(),
        name: "Acme Corp".to_owned(),
        without: vec!["apiKeys".to_owned()],
    };
    let stored = fixture.store().put_workspace(changed, NOW).await.unwrap();
    assert_eq!(stored.no, fixture.acme);
    fixture.reopen().await;
    let read = fixture.store().workspace("acme").await.unwrap();
    assert_eq!(read, Some(stored.clone()));
    assert_eq!(stored.name, "Acme Corp");
    assert_eq!(stored.without, ["apiKeys"]);
    let unknown = fixture.store().workspace("nobody").await.unwrap();
    assert_eq!(unknown, None);
}

pub(crate) async fn workspaces_come_by_slug(fixture: Fixture) {
    put_workspace(&*fixture.store(), "aaa").await;
    let all = fixture.store().workspaces().await.unwrap();
    let slugs: Vec<&str> = all.iter().map(|row| row.slug.as_str()).collect();
    assert_eq!(slugs, ["aaa", "acme", "rival"]);
}

pub(crate) async fn a_key_is_found_by_its_prefix_with_its_workspace(fixture: Fixture) {
    let store = fixture.store();
    let mut other = new_key(fixture.rival, "two", 2);
    other.usage = KeyUsage::A2a;
    other.runs_per_minute = None;
    let first = new_key(fixture.acme, "one", 1);
    assert_eq!(store.put_key(first.clone(), NOW).await.unwrap(), first.id);
    store.put_key(other, NOW).await.unwrap();
    let found = store.keys_by_prefix("mantyx_abc").await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].id, first.id);
    assert_eq!(found[0].workspace.slug, "acme");
    assert_eq!(found[0].name, "one");
    assert_eq!(found[0].hash, [1; 32]);
    assert_eq!(found[0].usage, KeyUsage::DeveloperApi);
    assert_eq!(found[0].agent_ids, ["agent_1"]);
    assert_eq!(found[0].runs_per_minute, Some(7));
    assert_eq!(found[0].created_at, NOW);
    assert_eq!(found[0].revoked_at, None);
    assert_eq!(found[1].workspace.slug, "rival");
    assert_eq!(found[1].usage, KeyUsage::A2a);
    assert!(store.keys_by_prefix("mantyx_ab").await.unwrap().is_empty());
    let own = store.keys(fixture.acme).await.unwrap();
    assert_eq!(own.len(), 1);
}

pub(crate) async fn a_key_put_again_is_updated_and_keeps_its_id(fixture: Fixture) {
    let store = fixture.store();
    let first = new_key(fixture.acme, "one", 1);
    store.put_key(first.clone(), NOW).await.unwrap();
    let mut again = new_key(fixture.acme, "renamed", 1);
    again.usage = KeyUsage::Mcp;
    assert_eq!(store.put_key(again, NOW).await.unwrap(), first.id);
    let keys = store.keys(fixture.acme).await.unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].name, "renamed");
    assert_eq!(keys[0].usage, KeyUsage::Mcp);
}

pub(crate) async fn a_revoked_key_stays_revoked(fixture: Fixture) {
    let store = fixture.store();
    let key = new_key(fixture.acme, "one", 1);
    store.put_key(key.clone(), NOW).await.unwrap();
    let first = Millis(NOW.0 + 1);
    let revoke = async |at| store.revoke_key(fixture.acme, &key.id, at).await.unwrap();
    assert!(revoke(first).await);
    assert!(revoke(Millis(NOW.0 + 2)).await);
    store.put_key(key.clone(), NOW).await.unwrap();
    let found = store.keys_by_prefix(&key.prefix).await.unwrap();
    assert_eq!(found[0].revoked_at, Some(first));
}

pub(crate) async fn a_key_of_another_workspace_cannot_be_revoked(fixture: Fixture) {
    let store = fixture.store();
    let key = new_key(fixture.acme, "one", 1);
    store.put_key(key.clone(), NOW).await.unwrap();
    assert!(!store.revoke_key(fixture.rival, &key.id, NOW).await.unwrap());
    let keys = store.keys(fixture.acme).await.unwrap();
    assert_eq!(keys[0].revoked_at, None);
}
