//! The service behind the router: real credentials and rate windows over workspaces and keys in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runloom_core::catalog::Catalog;
use runloom_core::ports::store::{
    KeyRow, Millis, NewKey, StoreResult, Tenancy, WorkspaceNo, WorkspaceRow,
};
use runloom_core::service::Service;
use runloom_core::service::auth::{Authenticator, KeyCache, KeyRing};
use runloom_core::service::rate::{RateLimiter, RateLimits};
use runloom_core::service::tenancy::TenancyService;
use runloom_protocol::id::KeyId;

/// A service whose runs and sessions are not there.
pub(crate) fn service(limits: RateLimits) -> Service {
    let store = Arc::new(MemoryTenancy::default());
    let keys = Arc::new(KeyRing::new(b"master key of the tests"));
    let cache = Arc::new(KeyCache::default());
    let auth = Authenticator::new(store.clone(), keys.clone(), cache.clone());
    let tenancy = TenancyService::new(store, keys, cache);
    Service::stand_in(auth, RateLimiter::new(limits), tenancy, Catalog::default())
}

#[derive(Debug, Default)]
struct MemoryTenancy {
    workspaces: Mutex<HashMap<String, WorkspaceRow>>,
    keys: Mutex<Vec<KeyRow>>,
}

#[async_trait]
impl Tenancy for MemoryTenancy {
    async fn put_workspace(&self, mut row: WorkspaceRow, _: Millis) -> StoreResult<WorkspaceRow> {
        let mut rows = self.workspaces.lock().unwrap();
        let new = WorkspaceNo(rows.len() as i64 + 1);
        row.no = rows.get(&row.slug).map_or(new, |known| known.no);
        rows.insert(row.slug.clone(), row.clone());
        Ok(row)
    }

    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>> {
        Ok(self.workspaces.lock().unwrap().get(slug).cloned())
    }

    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>> {
        Ok(self.workspaces.lock().unwrap().values().cloned().collect())
    }

    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId> {
        let workspaces = self.workspaces.lock().unwrap();
        let owner = workspaces.values().find(|row| row.no == key.workspace);
        self.keys.lock().unwrap().push(KeyRow {
            id: key.id.clone(),
            workspace: owner.cloned().unwrap(),
            name: key.name,
            prefix: key.prefix,
            hash: key.hash,
            usage: key.usage,
            agent_ids: key.agent_ids,
            runs_per_minute: key.runs_per_minute,
            created_at: now,
            revoked_at: None,
        });
        Ok(key.id)
    }

    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>> {
        let mut found = self.keys.lock().unwrap().clone();
        found.retain(|row| row.prefix == prefix);
        // A stored key shows its workspace as it is now.
        let workspaces = self.workspaces.lock().unwrap();
        for row in &mut found {
            row.workspace = workspaces[&row.workspace.slug].clone();
        }
        Ok(found)
    }

    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>> {
        let mut found = self.keys.lock().unwrap().clone();
        found.retain(|row| row.workspace.no == workspace);
        Ok(found)
    }

    async fn revoke_key(&self, no: WorkspaceNo, id: &KeyId, now: Millis) -> StoreResult<bool> {
        let mut rows = self.keys.lock().unwrap();
        let found = rows
            .iter_mut()
            .find(|row| row.workspace.no == no && row.id == *id);
        Ok(found.map(|row| row.revoked_at = Some(now)).is_some())
    }
}
