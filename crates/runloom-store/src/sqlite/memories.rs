//! [`Memories`]: what workspaces remember.

use async_trait::async_trait;
use runloom_ports::store::{
    Memories, MemoryLink, MemoryRow, Millis, PutMemory, Remembered, StoreResult, WorkspaceNo,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::Json;
use super::transaction::Tx;
use super::{SqliteStore, int, uint};

#[async_trait]
impl Memories for SqliteStore {
    async fn remember(&self, put: PutMemory) -> StoreResult<Remembered> {
        self.writer
            .run("remember", move |tx| remember(tx, &put))
            .await
    }

    async fn memories_by_key(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
    ) -> StoreResult<Vec<MemoryRow>> {
        let keys = keys.to_vec();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM memories
                         WHERE workspace = ?1 AND key IN (SELECT value FROM json_each(?2))"
                ))?
                .query_map(params![workspace.0, Json(&keys)], memory)?
                .collect()
        })
        .await
    }

    async fn matching(
        &self,
        workspace: WorkspaceNo,
        words: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        let Some(query) = query(workspace, words) else {
            return Ok(Vec::new());
        };
        self.read(move |connection| {
                // The workspace is asked of the row as well: the index only has to be fast.
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM memory_words JOIN memories ON memories.no = memory_words.rowid
                         WHERE memory_words MATCH ?1 AND workspace = ?2
                         ORDER BY bm25(memory_words, 0.0, 1.0), updated_at DESC, memories.no DESC LIMIT ?3"
                    ))?
                    .query_map(params![query, workspace.0, int(limit as u64)], memory)?
                    .collect()
            })
            .await
    }

    async fn links_at(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryLink>> {
        let keys = keys.to_vec();
        self.read(move |connection| {
                connection
                    .prepare_cached(
                        "WITH here AS MATERIALIZED (SELECT no FROM memories
                             WHERE workspace = ?1 AND key IN (SELECT value FROM json_each(?2)))
                         SELECT source.key, relation, target.key
                         FROM (SELECT no FROM memory_links WHERE source IN (SELECT no FROM here)
                               UNION SELECT no FROM memory_links WHERE target IN (SELECT no FROM here)
                               ORDER BY no LIMIT ?3) AS found
                         JOIN memory_links AS link ON link.no = found.no
                         JOIN memories AS source ON source.no = link.source
                         JOIN memories AS target ON target.no = link.target
                         ORDER BY link.no",
                    )?
                    .query_map(params![workspace.0, Json(&keys), int(limit as u64)], |row| {
                        Ok(MemoryLink {
                            from: row.get(0)?,
                            relation: row.get(1)?,
                            to: row.get(2)?,
                        })
                    })?
                    .collect()
            })
            .await
    }

    async fn memories(
        &self,
        workspace: WorkspaceNo,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        self.read(move |connection| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM memories WHERE workspace = ?1 AND no < ?2 ORDER BY no DESC LIMIT ?3"
                    ))?
                    .query_map(
                        params![workspace.0, before.unwrap_or(i64::MAX), int(limit as u64)],
                        memory,
                    )?
                    .collect()
            })
            .await
    }

    async fn forget(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<bool> {
        let key = key.to_owned();
        self.writer
            .run("forget", move |tx| {
                let Some(no) = find(tx.connection, workspace, &key)? else {
                    return Ok(false);
                };
                delete(tx, no)?;
                Ok(true)
            })
            .await
    }

    async fn forget_before(
        &self,
        workspace: WorkspaceNo,
        before: Millis,
        limit: usize,
    ) -> StoreResult<usize> {
        self.writer
            .run("forget_before", move |tx| {
                let old: Vec<i64> = tx
                    .connection
                    .prepare_cached(
                        "SELECT no FROM memories WHERE workspace = ?1 AND updated_at < ?2 ORDER BY updated_at LIMIT ?3",
                    )?
                    .query_map(params![workspace.0, before.0, int(limit as u64)], |row| {
                        row.get(0)
                    })?
                    .collect::<rusqlite::Result<_>>()?;
                for no in &old {
                    delete(tx, *no)?;
                }
                Ok(old.len())
            })
            .await
    }
}

const COLUMNS: &str = "memories.no, key, text, created_at, updated_at";

/// Reads [`COLUMNS`].
fn memory(row: &Row<'_>) -> rusqlite::Result<MemoryRow> {
    Ok(MemoryRow {
        no: row.get(0)?,
        key: row.get(1)?,
        text: row.get(2)?,
        created_at: Millis(row.get(3)?),
        updated_at: Millis(row.get(4)?),
    })
}

/// The word that every memory of a workspace has, and no other.
fn tenant(workspace: WorkspaceNo) -> String {
    format!("w{}", workspace.0)
}

/// The question in FTS5's language. Only letters and digits come through, quoted, so that nothing in a word is read as syntax.
fn query(workspace: WorkspaceNo, words: &[String]) -> Option<String> {
    let plain =
        |word: &String| -> String { word.chars().filter(|c| c.is_alphanumeric()).collect() };
    let quoted: Vec<String> = words
        .iter()
        .map(plain)
        .filter(|word| !word.is_empty())
        .map(|word| format!("\"{word}\" *"))
        .collect();
    if quoted.is_empty() {
        return None;
    }
    let tenant = tenant(workspace);
    Some(format!(
        "tenant : \"{tenant}\" AND words : ({})",
        quoted.join(" OR ")
    ))
}

fn find(
    connection: &Connection,
    workspace: WorkspaceNo,
    key: &str,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT no FROM memories WHERE workspace = ?1 AND key = ?2")?
        .query_row(params![workspace.0, key], |row| row.get(0))
        .optional()
}

fn remember(tx: &Tx<'_>, put: &PutMemory) -> rusqlite::Result<Remembered> {
    let found = find(tx.connection, put.workspace, &put.key)?;
    if found.is_none() && count(tx, put.workspace)? >= put.limit as u64 {
        return Ok(Remembered::Full);
    }
    let (mut targets, mut unknown) = (Vec::new(), Vec::new());
    for (relation, key) in put.links.iter().flatten() {
        match find(tx.connection, put.workspace, key)? {
            Some(target) => targets.push((relation, target)),
            None => unknown.push(key.clone()),
        }
    }
    if !unknown.is_empty() {
        return Ok(Remembered::Unknown(unknown));
    }
    let no = match found {
        Some(no) => {
            tx.execute(
                "UPDATE memories SET text = ?2, updated_at = ?3 WHERE no = ?1",
                params![no, put.text, put.now.0],
            )?;
            tx.execute("DELETE FROM memory_words WHERE rowid = ?1", params![no])?;
            no
        }
        None => {
            tx.execute(
                "INSERT INTO memories (workspace, key, text, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
                params![put.workspace.0, put.key, put.text, put.now.0],
            )?;
            tx.connection.last_insert_rowid()
        }
    };
    tx.execute(
        "INSERT INTO memory_words (rowid, tenant, words) VALUES (?1, ?2, ?3)",
        params![no, tenant(put.workspace), put.words],
    )?;
    if put.links.is_some() {
        tx.execute("DELETE FROM memory_links WHERE source = ?1", params![no])?;
        for (relation, target) in targets {
            tx.execute(
                "INSERT OR IGNORE INTO memory_links (source, relation, target) VALUES (?1, ?2, ?3)",
                params![no, relation, target],
            )?;
        }
    }
    flush_words(tx)?;
    Ok(match found {
        Some(_) => Remembered::Replaced,
        None => Remembered::Created,
    })
}

fn count(tx: &Tx<'_>, workspace: WorkspaceNo) -> rusqlite::Result<u64> {
    let count: i64 = tx
        .connection
        .prepare_cached("SELECT count(*) FROM memories WHERE workspace = ?1")?
        .query_row([workspace.0], |row| row.get(0))?;
    Ok(uint(count))
}

fn delete(tx: &Tx<'_>, no: i64) -> rusqlite::Result<()> {
    tx.execute(
        "DELETE FROM memory_links WHERE source = ?1 OR target = ?1",
        params![no],
    )?;
    tx.execute("DELETE FROM memory_words WHERE rowid = ?1", params![no])?;
    tx.execute("DELETE FROM memories WHERE no = ?1", params![no])?;
    flush_words(tx)
}

/// Has the index of words written now. Left alone it is written when the transaction is committed, and a fault in it would come to
/// light after the write was answered.
fn flush_words(tx: &Tx<'_>) -> rusqlite::Result<()> {
    for sql in ["SAVEPOINT words", "RELEASE words"] {
        tx.connection.prepare_cached(sql)?.execute([])?;
    }
    Ok(())
}
