//! Workspaces and API keys.

use async_trait::async_trait;
use runloom_protocol::id::KeyId;

pub use runloom_protocol::admin::KeyUsage;

use super::{Millis, StoreResult, WorkspaceNo};

/// Workspaces and their keys.
#[async_trait]
pub trait Tenancy: Send + Sync {
    /// Creates a workspace, or updates the one with this slug.
    async fn put_workspace(
        &self,
        workspace: WorkspaceRow,
        now: Millis,
    ) -> StoreResult<WorkspaceRow>;

    /// One workspace.
    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>>;

    /// All workspaces, by slug.
    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>>;

    /// Inserts a key, or updates the one with the same hash. Returns the stored id.
    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId>;

    /// Keys that share a prefix, revoked ones included; few.
    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>>;

    /// Keys of a workspace, oldest first.
    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>>;

    /// Revokes a key; false when the workspace has no such key.
    async fn revoke_key(
        &self,
        workspace: WorkspaceNo,
        id: &KeyId,
        now: Millis,
    ) -> StoreResult<bool>;
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceRow {
    /// Assigned by the store; ignored on input.
    pub no: WorkspaceNo,
    /// `^[a-z0-9][a-z0-9-]{0,62}$`.
    pub slug: String,
    /// For people.
    pub name: String,
    /// Features of the plan that are switched off: `apiKeys`, `oauthApps`.
    pub without: Vec<String>,
}

/// A key to be stored. The key itself is never stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Row id, used when the hash is new.
    pub id: KeyId,
    /// Owner.
    pub workspace: WorkspaceNo,
    /// For people.
    pub name: String,
    /// The first characters, to find it by.
    pub prefix: String,
    /// Keyed hash of the whole key.
    pub hash: [u8; 32],
    /// Its usage.
    pub usage: KeyUsage,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts per minute, if it has one.
    pub runs_per_minute: Option<u32>,
    /// Whether a request with it may name the owner that it acts for.
    pub act_for_owners: bool,
}

/// A key as it is stored.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// Row id.
    pub id: KeyId,
    /// Owner.
    pub workspace: WorkspaceRow,
    /// For people.
    pub name: String,
    /// The first characters.
    pub prefix: String,
    /// Keyed hash of the whole key.
    pub hash: [u8; 32],
    /// Its usage.
    pub usage: KeyUsage,
    /// Agents it may run; empty = every agent.
    pub agent_ids: Vec<String>,
    /// Its own limit of run starts per minute, if it has one.
    pub runs_per_minute: Option<u32>,
    /// Whether a request with it may name the owner that it acts for.
    pub act_for_owners: bool,
    /// Created.
    pub created_at: Millis,
    /// Revoked.
    pub revoked_at: Option<Millis>,
}
