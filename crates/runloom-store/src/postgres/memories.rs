//! [`Memories`]: what workspaces remember.

use async_trait::async_trait;
use runloom_ports::store::{
    Memories, MemoryLink, MemoryRow, Millis, PutMemory, Remembered, StoreResult, WorkspaceNo,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::columns::{get_text, get_time, text};
use super::error::Failure;
use super::pool::Session;
use super::{int as number, uint as count};

#[async_trait]
impl Memories for PostgresStore {
    async fn remember(&self, put: PutMemory) -> StoreResult<Remembered> {
        let put = &put;
        let remembered = self
            .pool
            .transact("remember", |session| async move {
                remember(&session, put).await
            })
            .await?;
        Ok(remembered)
    }

    async fn memories_by_key(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
    ) -> StoreResult<Vec<MemoryRow>> {
        let keys = &stored(keys);
        self.pool
            .read(|session| async move {
                let sql = format!(
                    "SELECT {COLUMNS} FROM memories WHERE workspace = $1 AND key = ANY($2)"
                );
                memories(session.query(&sql, &[&workspace.0, keys]).await?)
            })
            .await
    }

    async fn matching(
        &self,
        workspace: WorkspaceNo,
        words: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        let Some(query) = &query(words) else {
            return Ok(Vec::new());
        };
        self.pool
            .read(|session| async move {
                let sql = format!(
                    "SELECT {COLUMNS} FROM memories,
                         (SELECT to_tsquery('simple', $2) || to_tsquery('english', $2) AS wanted) AS asked
                     WHERE workspace = $1 AND words @@ wanted
                     ORDER BY ts_rank(words, wanted, 1) DESC, updated_at DESC, no DESC LIMIT $3"
                );
                let limit = number(limit as u64);
                memories(session.query(&sql, &[&workspace.0, query, &limit]).await?)
            })
            .await
    }

    async fn links_at(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryLink>> {
        let keys = &stored(keys);
        self.pool
            .read(|session| async move {
                let sql = "WITH here AS MATERIALIZED (SELECT no FROM memories WHERE workspace = $1 AND key = ANY($2)),
                     found AS (SELECT no FROM memory_links WHERE source IN (SELECT no FROM here)
                               UNION SELECT no FROM memory_links WHERE target IN (SELECT no FROM here)
                               ORDER BY no LIMIT $3)
                     SELECT source.key AS source, relation, target.key AS target
                     FROM found JOIN memory_links AS link ON link.no = found.no
                     JOIN memories AS source ON source.no = link.source
                     JOIN memories AS target ON target.no = link.target
                     ORDER BY link.no";
                let limit = number(limit as u64);
                let rows = session.query(sql, &[&workspace.0, keys, &limit]).await?;
                let link = |row: &Row| -> Result<MemoryLink, Failure> {
                    Ok(MemoryLink {
                        from: get_text(row, "source")?,
                        relation: get_text(row, "relation")?,
                        to: get_text(row, "target")?,
                    })
                };
                rows.iter().map(link).collect()
            })
            .await
    }

    async fn memories(
        &self,
        workspace: WorkspaceNo,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        self.pool
            .read(|session| async move {
                let sql = format!(
                    "SELECT {COLUMNS} FROM memories WHERE workspace = $1 AND no < $2 ORDER BY no DESC LIMIT $3"
                );
                let (before, limit) = (before.unwrap_or(i64::MAX), number(limit as u64));
                memories(session.query(&sql, &[&workspace.0, &before, &limit]).await?)
            })
            .await
    }

    async fn forget(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<bool> {
        let gone = self
            .pool
            .transact("forget", |session| async move {
                lock(&session, workspace).await?;
                let sql = "SELECT no FROM memories WHERE workspace = $1 AND key = $2";
                let Some(row) = session.first(sql, &[&workspace.0, &text(key)]).await? else {
                    return Ok(0);
                };
                delete(&session, &[row.try_get("no")?]).await
            })
            .await?;
        Ok(gone > 0)
    }

    async fn forget_before(
        &self,
        workspace: WorkspaceNo,
        before: Millis,
        limit: usize,
    ) -> StoreResult<usize> {
        let gone = self
            .pool
            .transact("forget_before", |session| async move {
                lock(&session, workspace).await?;
                let sql = "SELECT no FROM memories WHERE workspace = $1 AND updated_at < $2 ORDER BY updated_at LIMIT $3";
                let limit = number(limit as u64);
                let rows = session.query(sql, &[&workspace.0, &before.0, &limit]).await?;
                let old: Vec<i64> = rows
                    .iter()
                    .map(|row| Ok(row.try_get("no")?))
                    .collect::<Result<_, Failure>>()?;
                delete(&session, &old).await
            })
            .await?;
        Ok(gone)
    }
}

const COLUMNS: &str = "no, key, text, created_at, updated_at";

/// Reads [`COLUMNS`].
fn memories(rows: Vec<Row>) -> Result<Vec<MemoryRow>, Failure> {
    let memory = |row: &Row| -> Result<MemoryRow, Failure> {
        Ok(MemoryRow {
            no: row.try_get("no")?,
            key: get_text(row, "key")?,
            text: get_text(row, "text")?,
            created_at: get_time(row, "created_at")?,
            updated_at: get_time(row, "updated_at")?,
        })
    };
    rows.iter().map(memory).collect()
}

/// Keys as the column holds them.
fn stored(keys: &[String]) -> Vec<String> {
    keys.iter().map(|key| text(key).into_owned()).collect()
}

/// The question in the language of `to_tsquery`. Only letters and digits come through, so that nothing in a word is read as syntax.
fn query(words: &[String]) -> Option<String> {
    let plain =
        |word: &String| -> String { word.chars().filter(|c| c.is_alphanumeric()).collect() };
    let prefixes: Vec<String> = words
        .iter()
        .map(plain)
        .filter(|word| !word.is_empty())
        .map(|word| format!("{word}:*"))
        .collect();
    (!prefixes.is_empty()).then(|| prefixes.join(" | "))
}

/// Changes of one workspace's memories wait for each other: a key that is not there yet has no row to lock, and a link's end must
/// not go while the link is made.
async fn lock(session: &Session, workspace: WorkspaceNo) -> Result<(), Failure> {
    let sql = "SELECT no FROM workspaces WHERE no = $1 FOR UPDATE";
    session.execute(sql, &[&workspace.0]).await?;
    Ok(())
}

async fn find(
    session: &Session,
    workspace: WorkspaceNo,
    key: &str,
) -> Result<Option<i64>, Failure> {
    let sql = "SELECT no FROM memories WHERE workspace = $1 AND key = $2";
    let row = session.first(sql, &[&workspace.0, &text(key)]).await?;
    Ok(row.map(|row| row.try_get("no")).transpose()?)
}

async fn remember(session: &Session, put: &PutMemory) -> Result<Remembered, Failure> {
    lock(session, put.workspace).await?;
    let found = find(session, put.workspace, &put.key).await?;
    if found.is_none() {
        let sql = "SELECT count(*) AS memories FROM memories WHERE workspace = $1";
        let there = match session.first(sql, &[&put.workspace.0]).await? {
            Some(row) => count(row.try_get("memories")?),
            None => 0,
        };
        if there >= put.limit as u64 {
            return Ok(Remembered::Full);
        }
    }
    let (mut targets, mut unknown) = (Vec::new(), Vec::new());
    for (relation, key) in put.links.iter().flatten() {
        match find(session, put.workspace, key).await? {
            Some(target) => targets.push((relation, target)),
            None => unknown.push(key.clone()),
        }
    }
    if !unknown.is_empty() {
        return Ok(Remembered::Unknown(unknown));
    }
    let no = write(session, put, found).await?;
    if put.links.is_some() {
        let clear = "DELETE FROM memory_links WHERE source = $1";
        session.execute(clear, &[&no]).await?;
        let link = "INSERT INTO memory_links (source, relation, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        for (relation, target) in targets {
            session
                .execute(link, &[&no, &text(relation), &target])
                .await?;
        }
    }
    Ok(match found {
        Some(_) => Remembered::Replaced,
        None => Remembered::Created,
    })
}

/// Writes the row and says its number.
async fn write(session: &Session, put: &PutMemory, found: Option<i64>) -> Result<i64, Failure> {
    let (body, words) = (text(&put.text), text(&put.words));
    if let Some(no) = found {
        let sql = "UPDATE memories SET text = $2, updated_at = $4,
                 words = to_tsvector('simple', $3) || to_tsvector('english', $3) WHERE no = $1";
        session
            .execute(sql, &[&no, &body, &words, &put.now.0])
            .await?;
        return Ok(no);
    }
    let sql = "INSERT INTO memories (workspace, key, text, words, created_at, updated_at)
         VALUES ($1, $2, $3, to_tsvector('simple', $4) || to_tsvector('english', $4), $5, $5) RETURNING no";
    let key = text(&put.key);
    let made = session
        .first(sql, &[&put.workspace.0, &key, &body, &words, &put.now.0])
        .await?;
    match made {
        Some(row) => Ok(row.try_get("no")?),
        None => Ok(0),
    }
}

async fn delete(session: &Session, memories: &[i64]) -> Result<usize, Failure> {
    let links = "DELETE FROM memory_links WHERE source = ANY($1) OR target = ANY($1)";
    session.execute(links, &[&memories]).await?;
    let gone = "DELETE FROM memories WHERE no = ANY($1)";
    Ok(session.execute(gone, &[&memories]).await? as usize)
}
