//! Workspaces and keys in memory, for the tests of this folder's neighbours.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use runloom_protocol::id::KeyId;

use runloom_ports::store::{
    KeyRow, Millis, NewKey, StoreResult, Tenancy, WorkspaceNo, WorkspaceRow,
};

/// Keeps everything in two lists and counts look-ups.
#[derive(Debug, Default)]
pub(crate) struct FakeTenancy {
    workspaces: Mutex<Vec<WorkspaceRow>>,
    keys: Mutex<Vec<KeyRow>>,
    lookups: AtomicUsize,
}

impl FakeTenancy {
    /// How often keys were looked for by prefix.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Tenancy for FakeTenancy {
    async fn put_workspace(
        &self,
        mut workspace: WorkspaceRow,
        _now: Millis,
    ) -> StoreResult<WorkspaceRow> {
        let mut rows = self.workspaces.lock().unwrap();
        if let Some(row) = rows.iter_mut().find(|row| row.slug == workspace.slug) {
            workspace.no = row.no;
            *row = workspace.clone();
        } else {
            workspace.no = WorkspaceNo(rows.len() as i64 + 1);
            rows.push(workspace.clone());
        }
        Ok(workspace)
    }

    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>> {
        let rows = self.workspaces.lock().unwrap();
        Ok(rows.iter().find(|row| row.slug == slug).cloned())
    }

    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>> {
        Ok(self.workspaces.lock().unwrap().clone())
    }

    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId> {
        let workspaces = self.workspaces.lock().unwrap();
        let workspace = workspaces.iter().find(|row| row.no == key.workspace);
        let mut rows = self.keys.lock().unwrap();
        let known = rows.iter().position(|row| row.hash == key.hash);
        let row = KeyRow {
            act_for_owners: key.act_for_owners,
            id: known.map_or(key.id, |index| rows[index].id.clone()),
            workspace: workspace.cloned().unwrap(),
            name: key.name,
            prefix: key.prefix,
            hash: key.hash,
            usage: key.usage,
            agent_ids: key.agent_ids,
            runs_per_minute: key.runs_per_minute,
            created_at: now,
            revoked_at: None,
        };
        let id = row.id.clone();
        match known {
            Some(index) => rows[index] = row,
            None => rows.push(row),
        }
        Ok(id)
    }

    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let rows = self.keys.lock().unwrap();
        let found = rows.iter().filter(|row| row.prefix == prefix);
        Ok(found.cloned().collect())
    }

    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>> {
        let rows = self.keys.lock().unwrap();
        let found = rows.iter().filter(|row| row.workspace.no == workspace);
        Ok(found.cloned().collect())
    }

    async fn revoke_key(
        &self,
        workspace: WorkspaceNo,
        id: &KeyId,
        now: Millis,
    ) -> StoreResult<bool> {
        let mut rows = self.keys.lock().unwrap();
        let found = rows
            .iter_mut()
            .find(|row| row.workspace.no == workspace && row.id == *id);
        Ok(found.map(|row| row.revoked_at = Some(now)).is_some())
    }
}
