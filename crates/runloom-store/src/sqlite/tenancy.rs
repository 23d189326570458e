//! [`Tenancy`]: workspaces and their keys.

use async_trait::async_trait;
use runloom_ports::store::{
    KeyRow, KeyUsage, Millis, NewKey, StoreResult, Tenancy, WorkspaceNo, WorkspaceRow,
};
use runloom_protocol::id::KeyId;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, params};

use super::SqliteStore;
use super::columns::{Json, Unknown, Word, time};
use super::transaction::Tx;

#[async_trait]
impl Tenancy for SqliteStore {
    async fn put_workspace(
        &self,
        workspace: WorkspaceRow,
        now: Millis,
    ) -> StoreResult<WorkspaceRow> {
        self.writer
            .run("put_workspace", move |tx| {
                put_workspace(tx, &workspace, now)
            })
            .await
    }

    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>> {
        let slug = slug.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {WORKSPACE} FROM workspaces WHERE slug = ?1"
                ))?
                .query_row([slug], workspace_row)
                .optional()
        })
        .await
    }

    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!("SELECT {WORKSPACE} FROM workspaces ORDER BY slug"))?
                .query_map([], workspace_row)?
                .collect()
        })
        .await
    }

    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId> {
        self.writer
            .run("put_key", move |tx| put_key(tx, &key, now))
            .await
    }

    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>> {
        let prefix = prefix.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT_KEYS} WHERE api_keys.prefix = ?1 ORDER BY api_keys.no"
                ))?
                .query_map([prefix], key_row)?
                .collect()
        })
        .await
    }

    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>> {
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT_KEYS} WHERE api_keys.workspace = ?1 ORDER BY api_keys.no"
                ))?
                .query_map([workspace.0], key_row)?
                .collect()
        })
        .await
    }

    async fn revoke_key(
        &self,
        workspace: WorkspaceNo,
        id: &KeyId,
        now: Millis,
    ) -> StoreResult<bool> {
        let id = id.clone();
        self.writer
            .run("revoke_key", move |tx| {
                let changed = tx.execute(
                    "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?3) WHERE id = ?1 AND workspace = ?2",
                    params![id.as_str(), workspace.0, now.0],
                )?;
                Ok(changed > 0)
            })
            .await
    }
}

pub(super) const WORKSPACE: &str =
    "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off";

const SELECT_KEYS: &str = "SELECT workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
        api_keys.id AS key_id, api_keys.name AS key_name, prefix, hash, usage, agent_ids, runs_per_minute,
        api_keys.created_at AS key_created_at, revoked_at
    FROM api_keys JOIN workspaces ON workspaces.no = api_keys.workspace";

/// Reads [`WORKSPACE`] from the first columns.
pub(super) fn workspace_row(row: &Row<'_>) -> rusqlite::Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        no: WorkspaceNo(row.get(0)?),
        slug: row.get(1)?,
        name: row.get(2)?,
        without: row.get::<_, Json<Vec<String>>>(3)?.0,
    })
}

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        workspace: workspace_row(row)?,
        id: row.get::<_, Word<KeyId>>("key_id")?.0,
        name: row.get("key_name")?,
        prefix: row.get("prefix")?,
        hash: row.get("hash")?,
        usage: row.get::<_, Word<KeyUsage>>("usage")?.0,
        agent_ids: row.get::<_, Json<Vec<String>>>("agent_ids")?.0,
        runs_per_minute: row.get("runs_per_minute")?,
        created_at: Millis(row.get("key_created_at")?),
        revoked_at: time(row, "revoked_at")?,
    })
}

fn put_workspace(
    tx: &Tx<'_>,
    workspace: &WorkspaceRow,
    now: Millis,
) -> rusqlite::Result<WorkspaceRow> {
    tx.execute(
        "INSERT INTO workspaces (slug, name, switched_off, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (slug) DO UPDATE SET name = ?2, switched_off = ?3, updated_at = ?4",
        params![
            workspace.slug,
            workspace.name,
            Json(&workspace.without),
            now.0
        ],
    )?;
    tx.connection
        .prepare_cached(&format!(
            "SELECT {WORKSPACE} FROM workspaces WHERE slug = ?1"
        ))?
        .query_row([&workspace.slug], workspace_row)
}

/// A revoked key stays revoked when it is put again: the configuration file puts its keys at every start.
fn put_key(tx: &Tx<'_>, key: &NewKey, now: Millis) -> rusqlite::Result<KeyId> {
    tx.execute(
        "INSERT INTO api_keys (id, workspace, name, prefix, hash, usage, agent_ids, runs_per_minute, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (hash) DO UPDATE SET
             workspace = ?2, name = ?3, prefix = ?4, usage = ?6, agent_ids = ?7, runs_per_minute = ?8",
        params![
            key.id.as_str(),
            key.workspace.0,
            key.name,
            key.prefix,
            &key.hash[..],
            word_of_usage(key.usage),
            Json(&key.agent_ids),
            key.runs_per_minute,
            now.0,
        ],
    )?;
    tx.connection
        .prepare_cached("SELECT id FROM api_keys WHERE hash = ?1")?
        .query_row([&key.hash[..]], |row| Ok(row.get::<_, Word<KeyId>>(0)?.0))
}

fn word_of_usage(usage: KeyUsage) -> &'static str {
    match usage {
        KeyUsage::DeveloperApi => "developer_api",
        KeyUsage::A2a => "a2a",
        KeyUsage::Mcp => "mcp",
    }
}

impl FromSql for Word<KeyUsage> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        [KeyUsage::DeveloperApi, KeyUsage::A2a, KeyUsage::Mcp]
            .into_iter()
            .find(|usage| word_of_usage(*usage) == text)
            .map(Self)
            .ok_or_else(|| {
                FromSqlError::other(Unknown {
                    kind: "KeyUsage",
                    text: text.to_owned(),
                })
            })
    }
}
