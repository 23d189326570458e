//! [`Tenancy`]: workspaces and their API keys.

use runloom_ports::store::{
    KeyRow, Millis, NewKey, StoreResult, Tenancy, WorkspaceNo, WorkspaceRow,
};
use runloom_protocol::id::KeyId;

use super::{on_both, work};
use crate::sql::{Malformed, Row, Statements, json, values};

on_both! { impl Tenancy {
    async fn put_workspace(&self, workspace: WorkspaceRow, now: Millis) -> StoreResult<WorkspaceRow> {
        self.write_cached("put_workspace", (workspace, now), work!(put_workspace)).await
    }

    async fn workspace(&self, slug: &str) -> StoreResult<Option<WorkspaceRow>> {
        self.read_tables(slug.to_owned(), work!(workspace)).await
    }

    async fn workspaces(&self) -> StoreResult<Vec<WorkspaceRow>> {
        self.read_tables((), work!(workspaces)).await
    }

    async fn put_key(&self, key: NewKey, now: Millis) -> StoreResult<KeyId> {
        self.write_cached("put_key", (key, now), work!(put_key)).await
    }

    async fn keys_by_prefix(&self, prefix: &str) -> StoreResult<Vec<KeyRow>> {
        self.read_tables(prefix.to_owned(), work!(keys_by_prefix)).await
    }

    async fn keys(&self, workspace: WorkspaceNo) -> StoreResult<Vec<KeyRow>> {
        self.read_tables(workspace, work!(keys)).await
    }

    async fn revoke_key(&self, workspace: WorkspaceNo, id: &KeyId, now: Millis) -> StoreResult<bool> {
        let key = Revoked { workspace, id: id.clone(), now };
        self.write_cached("revoke_key", key, work!(revoke)).await
    }
} }

/// A key to revoke.
struct Revoked {
    workspace: WorkspaceNo,
    id: KeyId,
    now: Millis,
}

pub(super) const WORKSPACE: &str =
    "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off";

const SELECT_KEYS: &str = "SELECT workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
        api_keys.id AS key_id, api_keys.name AS key_name, prefix, hash, usage, agent_ids, runs_per_minute, act_for_owners,
        api_keys.created_at AS key_created_at, revoked_at
    FROM api_keys JOIN workspaces ON workspaces.no = api_keys.workspace";

async fn put_workspace<S: Statements>(
    statements: &S,
    (workspace, now): &(WorkspaceRow, Millis),
) -> Result<WorkspaceRow, S::Error> {
    let row = statements
        .first(
            "INSERT INTO workspaces (slug, name, switched_off, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (slug) DO UPDATE SET name = $2, switched_off = $3, updated_at = $4
             RETURNING no, slug, name, switched_off",
            &values![&workspace.slug, &workspace.name, json(&workspace.without)?, *now],
        )
        .await?;
    Ok(workspace_row(&row.ok_or_else(|| missing("workspaces"))?)?)
}

async fn workspace<S: Statements>(
    statements: &S,
    slug: &String,
) -> Result<Option<WorkspaceRow>, S::Error> {
    let sql = format!("SELECT {WORKSPACE} FROM workspaces WHERE slug = $1");
    let row = statements.first(&sql, &values![slug]).await?;
    Ok(row.as_ref().map(workspace_row).transpose()?)
}

async fn workspaces<S: Statements>(statements: &S, (): &()) -> Result<Vec<WorkspaceRow>, S::Error> {
    let sql = format!("SELECT {WORKSPACE} FROM workspaces ORDER BY slug");
    let rows = statements.query(&sql, &[]).await?;
    Ok(rows.iter().map(workspace_row).collect::<Result<_, _>>()?)
}

/// A revoked key stays revoked when it is put again: the configuration file puts its keys at every start.
async fn put_key<S: Statements>(
    statements: &S,
    (key, now): &(NewKey, Millis),
) -> Result<KeyId, S::Error> {
    let row = statements
        .first(
            "INSERT INTO api_keys (id, workspace, name, prefix, hash, usage, agent_ids, runs_per_minute, created_at,
                 act_for_owners)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (hash) DO UPDATE SET
                 workspace = $2, name = $3, prefix = $4, usage = $6, agent_ids = $7, runs_per_minute = $8,
                 act_for_owners = $10
             RETURNING id",
            &values![
                key.id.as_str(),
                key.workspace,
                &key.name,
                &key.prefix,
                &key.hash,
                key.usage.as_str(),
                json(&key.agent_ids)?,
                key.runs_per_minute.map(i64::from),
                *now,
                key.act_for_owners,
            ],
        )
        .await?;
    Ok(row.ok_or_else(|| missing("api_keys"))?.word("id")?)
}

async fn keys_by_prefix<S: Statements>(
    statements: &S,
    prefix: &String,
) -> Result<Vec<KeyRow>, S::Error> {
    let sql = format!("{SELECT_KEYS} WHERE api_keys.prefix = $1 ORDER BY api_keys.no");
    let rows = statements.query(&sql, &values![prefix]).await?;
    Ok(rows.iter().map(key_row).collect::<Result<_, _>>()?)
}

async fn keys<S: Statements>(
    statements: &S,
    workspace: &WorkspaceNo,
) -> Result<Vec<KeyRow>, S::Error> {
    let sql = format!("{SELECT_KEYS} WHERE api_keys.workspace = $1 ORDER BY api_keys.no");
    let rows = statements.query(&sql, &values![*workspace]).await?;
    Ok(rows.iter().map(key_row).collect::<Result<_, _>>()?)
}

async fn revoke<S: Statements>(statements: &S, key: &Revoked) -> Result<bool, S::Error> {
    let sql = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $1 AND workspace = $2";
    let changed = statements
        .execute(sql, &values![key.id.as_str(), key.workspace, key.now])
        .await?;
    Ok(changed > 0)
}

pub(super) fn workspace_row(row: &Row) -> Result<WorkspaceRow, Malformed> {
    Ok(WorkspaceRow {
        no: row.workspace("no")?,
        slug: row.text("slug")?,
        name: row.text("name")?,
        without: row.json("switched_off")?,
    })
}

fn key_row(row: &Row) -> Result<KeyRow, Malformed> {
    let limit = row.maybe_int("runs_per_minute")?;
    Ok(KeyRow {
        workspace: workspace_row(row)?,
        id: row.word("key_id")?,
        name: row.text("key_name")?,
        prefix: row.text("prefix")?,
        hash: row.hash("hash")?,
        usage: row.word("usage")?,
        agent_ids: row.json("agent_ids")?,
        runs_per_minute: limit.and_then(|limit| u32::try_from(limit).ok()),
        act_for_owners: row.bool("act_for_owners")?,
        created_at: row.time("key_created_at")?,
        revoked_at: row.maybe_time("revoked_at")?,
    })
}

/// The error of an insert that returned no row.
pub(super) fn missing(table: &str) -> Malformed {
    Malformed::new(table, "the row that was just written is not there")
}
