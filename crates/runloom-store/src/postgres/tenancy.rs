//! [`Tenancy`]: workspaces and their keys.

use async_trait::async_trait;
use runloom_ports::store::{
    KeyRow, Millis, NewKey, StoreResult, Tenancy, WorkspaceNo, WorkspaceRow,
};
use runloom_protocol::id::KeyId;
use tokio_postgres::Row;

use super::columns::{
    get_json, get_maybe_time, get_text, get_time, get_word, text, to_json, word_of_usage,
};
use super::error::Failure;
use super::pool::{Session, no_row};
use super::{Notice, PostgresStore};

#[async_trait]
impl Tenancy for PostgresStore {
    async fn put_workspace(
        &self,
        workspace: WorkspaceRow,
        now: Millis,
    ) -> StoreResult<WorkspaceRow> {
        let put = &workspace;
        let stored = self
            .pool
            .transact("put_workspace", |session| async move {
                put_workspace(&session, put, now).await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        stored.ok_or_else(|| no_row("workspace that was just put"))
    }

    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>> {
        let sql = &format!("SELECT {WORKSPACE} FROM workspaces WHERE slug = $1");
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[&text(slug)]).await?;
                row.as_ref().map(workspace_row).transpose()
            })
            .await
    }

    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>> {
        let sql = &format!("SELECT {WORKSPACE} FROM workspaces ORDER BY slug");
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[]).await?;
                rows.iter().map(workspace_row).collect()
            })
            .await
    }

    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId> {
        let put = &key;
        let stored = self
            .pool
            .transact("put_key", |session| async move {
                put_key(&session, put, now).await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        stored.ok_or_else(|| no_row("key that was just put"))
    }

    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>> {
        let sql = &format!("{SELECT_KEYS} WHERE api_keys.prefix = $1 ORDER BY api_keys.no");
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&text(prefix)]).await?;
                rows.iter().map(key_row).collect()
            })
            .await
    }

    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>> {
        let sql = &format!("{SELECT_KEYS} WHERE api_keys.workspace = $1 ORDER BY api_keys.no");
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&workspace.0]).await?;
                rows.iter().map(key_row).collect()
            })
            .await
    }

    async fn revoke_key(
        &self,
        workspace: WorkspaceNo,
        id: &KeyId,
        now: Millis,
    ) -> StoreResult<bool> {
        let changed = self
            .pool
            .transact("revoke_key", |session| async move {
                session
                    .execute(
                        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $1 AND workspace = $2",
                        &[&id.as_str(), &workspace.0, &now.0],
                    )
                    .await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(changed > 0)
    }
}

pub(super) const WORKSPACE: &str =
    "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off";

const SELECT_KEYS: &str = "SELECT workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
        api_keys.id AS key_id, api_keys.name AS key_name, prefix, hash, usage, agent_ids, runs_per_minute,
        api_keys.created_at AS key_created_at, revoked_at
    FROM api_keys JOIN workspaces ON workspaces.no = api_keys.workspace";

pub(super) fn workspace_row(row: &Row) -> Result<WorkspaceRow, Failure> {
    Ok(WorkspaceRow {
        no: WorkspaceNo(row.try_get("no")?),
        slug: get_text(row, "slug")?,
        name: get_text(row, "name")?,
        without: get_json(row, "switched_off")?,
    })
}

fn key_row(row: &Row) -> Result<KeyRow, Failure> {
    let limit = row.try_get::<_, Option<i64>>("runs_per_minute")?;
    let mut hash = [0; 32];
    let stored: &[u8] = row.try_get("hash")?;
    if stored.len() == hash.len() {
        hash.copy_from_slice(stored);
    }
    Ok(KeyRow {
        workspace: workspace_row(row)?,
        id: get_word(row, "key_id")?,
        name: get_text(row, "key_name")?,
        prefix: get_text(row, "prefix")?,
        hash,
        usage: get_word(row, "usage")?,
        agent_ids: get_json(row, "agent_ids")?,
        runs_per_minute: limit.and_then(|limit| u32::try_from(limit).ok()),
        created_at: get_time(row, "key_created_at")?,
        revoked_at: get_maybe_time(row, "revoked_at")?,
    })
}

async fn put_workspace(
    session: &Session,
    workspace: &WorkspaceRow,
    now: Millis,
) -> Result<Option<WorkspaceRow>, Failure> {
    let row = session
        .first(
            "INSERT INTO workspaces (slug, name, switched_off, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (slug) DO UPDATE SET name = $2, switched_off = $3, updated_at = $4
             RETURNING no, slug, name, switched_off",
            &[
                &text(&workspace.slug),
                &text(&workspace.name),
                &to_json(&workspace.without)?,
                &now.0,
            ],
        )
        .await?;
    row.as_ref().map(workspace_row).transpose()
}

/// A revoked key stays revoked when it is put again: the configuration file puts its keys at every start.
async fn put_key(session: &Session, key: &NewKey, now: Millis) -> Result<Option<KeyId>, Failure> {
    let row = session
        .first(
            "INSERT INTO api_keys (id, workspace, name, prefix, hash, usage, agent_ids, runs_per_minute, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (hash) DO UPDATE SET
                 workspace = $2, name = $3, prefix = $4, usage = $6, agent_ids = $7, runs_per_minute = $8
             RETURNING id",
            &[
                &key.id.as_str(),
                &key.workspace.0,
                &text(&key.name),
                &text(&key.prefix),
                &&key.hash[..],
                &word_of_usage(key.usage),
                &to_json(&key.agent_ids)?,
                &key.runs_per_minute.map(i64::from),
                &now.0,
            ],
        )
        .await?;
    row.as_ref().map(|row| get_word(row, "id")).transpose()
}
