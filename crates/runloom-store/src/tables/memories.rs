//! [`Memories`]: texts that workspaces keep under keys, and the links between them.

use runloom_ports::store::{
    Memories, MemoryLink, MemoryRow, Millis, PutMemory, Remembered, StoreResult, WorkspaceNo,
};

use super::memory_words::{self, Search};
use super::{on_both, work};
use crate::sql::{Malformed, Row, Statements, Value, number, values};

on_both! { impl Memories {
    async fn remember(&self, put: PutMemory) -> StoreResult<Remembered> {
        self.write_tables("remember", put, work!(remember)).await
    }

    async fn memories_by_key(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
    ) -> StoreResult<Vec<MemoryRow>> {
        self.read_tables((workspace, keys.to_vec()), work!(by_key)).await
    }

    async fn matching(
        &self,
        workspace: WorkspaceNo,
        words: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        let search = Search { workspace, words: words.to_vec(), limit };
        self.read_tables(search, work!(memory_words::search)).await
    }

    async fn links_at(
        &self,
        workspace: WorkspaceNo,
        keys: &[String],
        limit: usize,
    ) -> StoreResult<Vec<MemoryLink>> {
        let wanted = Linked { workspace, keys: keys.to_vec(), limit };
        self.read_tables(wanted, work!(links_at)).await
    }

    async fn memories(
        &self,
        workspace: WorkspaceNo,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRow>> {
        let wanted = Wanted { workspace, before, limit };
        self.read_tables(wanted, work!(list)).await
    }

    async fn forget(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<bool> {
        self.write_tables("forget", (workspace, key.to_owned()), work!(forget)).await
    }

    async fn forget_before(
        &self,
        workspace: WorkspaceNo,
        before: Millis,
        limit: usize,
    ) -> StoreResult<usize> {
        let old = Old { workspace, before, limit };
        self.write_tables("forget_before", old, work!(forget_before)).await
    }
} }

/// Memories whose links are wanted.
struct Linked {
    workspace: WorkspaceNo,
    keys: Vec<String>,
    limit: usize,
}

/// A page of a list, newest first.
struct Wanted {
    workspace: WorkspaceNo,
    before: Option<i64>,
    limit: usize,
}

/// Memories that were not changed since a time.
struct Old {
    workspace: WorkspaceNo,
    before: Millis,
    limit: usize,
}

pub(super) const COLUMNS: &str = "memories.no, key, text, created_at, updated_at";

pub(super) fn memory_row(row: &Row) -> Result<MemoryRow, Malformed> {
    Ok(MemoryRow {
        no: row.int("no")?,
        key: row.text("key")?,
        text: row.text("text")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

/// Placeholders `$2, $3, …` for a list of keys; `$1` is the workspace.
fn placeholders(keys: &[String]) -> String {
    let places = (2..).zip(keys).map(|(place, _)| format!("${place}"));
    places.collect::<Vec<_>>().join(", ")
}

fn workspace_and_keys(workspace: WorkspaceNo, keys: &[String]) -> Vec<Value> {
    std::iter::once(workspace.into())
        .chain(keys.iter().map(Value::from))
        .collect()
}

async fn by_key<S: Statements>(
    statements: &S,
    (workspace, keys): &(WorkspaceNo, Vec<String>),
) -> Result<Vec<MemoryRow>, S::Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let places = placeholders(keys);
    let sql = format!("SELECT {COLUMNS} FROM memories WHERE workspace = $1 AND key IN ({places})");
    let rows = statements
        .query(&sql, &workspace_and_keys(*workspace, keys))
        .await?;
    Ok(rows.iter().map(memory_row).collect::<Result<_, _>>()?)
}

async fn links_at<S: Statements>(
    statements: &S,
    wanted: &Linked,
) -> Result<Vec<MemoryLink>, S::Error> {
    if wanted.keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut bound = workspace_and_keys(wanted.workspace, &wanted.keys);
    bound.push(number(wanted.limit).into());
    let sql = format!(
        "WITH here AS MATERIALIZED (SELECT no FROM memories WHERE workspace = $1 AND key IN ({})),
             found AS (SELECT no FROM memory_links WHERE source IN (SELECT no FROM here)
                       UNION SELECT no FROM memory_links WHERE target IN (SELECT no FROM here)
                       ORDER BY no LIMIT ${})
         SELECT source.key AS source, relation, target.key AS target
         FROM found JOIN memory_links AS link ON link.no = found.no
         JOIN memories AS source ON source.no = link.source
         JOIN memories AS target ON target.no = link.target
         ORDER BY link.no",
        placeholders(&wanted.keys),
        bound.len()
    );
    let link = |row: &Row| {
        Ok(MemoryLink {
            from: row.text("source")?,
            relation: row.text("relation")?,
            to: row.text("target")?,
        })
    };
    let rows = statements.query(&sql, &bound).await?;
    Ok(rows.iter().map(link).collect::<Result<_, Malformed>>()?)
}

async fn list<S: Statements>(statements: &S, wanted: &Wanted) -> Result<Vec<MemoryRow>, S::Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memories WHERE workspace = $1 AND no < $2 ORDER BY no DESC LIMIT $3"
    );
    let before = wanted.before.unwrap_or(i64::MAX);
    let bound = values![wanted.workspace, before, number(wanted.limit)];
    let rows = statements.query(&sql, &bound).await?;
    Ok(rows.iter().map(memory_row).collect::<Result<_, _>>()?)
}

/// Changes of one workspace's memories happen one after the other: a key that does not exist yet has no row to lock,
/// and the end of a link must not go while the link is made.
async fn lock<S: Statements>(statements: &S, workspace: WorkspaceNo) -> Result<(), S::Error> {
    let sql = "SELECT no FROM workspaces WHERE no = $1 FOR UPDATE";
    statements.query(sql, &values![workspace]).await?;
    Ok(())
}

async fn find<S: Statements>(
    statements: &S,
    workspace: WorkspaceNo,
    key: &str,
) -> Result<Option<i64>, S::Error> {
    let sql = "SELECT no FROM memories WHERE workspace = $1 AND key = $2";
    let row = statements.first(sql, &values![workspace, key]).await?;
    Ok(row.map(|row| row.int("no")).transpose()?)
}

async fn remember<S: Statements>(statements: &S, put: &PutMemory) -> Result<Remembered, S::Error> {
    lock(statements, put.workspace).await?;
    let found = find(statements, put.workspace, &put.key).await?;
    if found.is_none() {
        let sql = "SELECT count(*) AS found FROM memories WHERE workspace = $1";
        let row = statements.first(sql, &values![put.workspace]).await?;
        if row.map_or(Ok(0), |row| row.count("found"))? >= put.limit as u64 {
            return Ok(Remembered::Full);
        }
    }
    let (mut targets, mut unknown) = (Vec::new(), Vec::new());
    for (relation, key) in put.links.iter().flatten() {
        match find(statements, put.workspace, key).await? {
            Some(target) => targets.push((relation, target)),
            None => unknown.push(key.clone()),
        }
    }
    if !unknown.is_empty() {
        return Ok(Remembered::Unknown(unknown));
    }
    let no = write(statements, put, found).await?;
    if put.links.is_some() {
        let sql = "DELETE FROM memory_links WHERE source = $1";
        statements.execute(sql, &values![no]).await?;
        let sql = "INSERT INTO memory_links (source, relation, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        for (relation, target) in targets {
            statements
                .execute(sql, &values![no, relation, target])
                .await?;
        }
    }
    Ok(match found {
        Some(_) => Remembered::Replaced,
        None => Remembered::Created,
    })
}

/// Writes the row and its words; returns its number.
async fn write<S: Statements>(
    statements: &S,
    put: &PutMemory,
    found: Option<i64>,
) -> Result<i64, S::Error> {
    let no = match found {
        Some(no) => {
            let sql = "UPDATE memories SET text = $2, updated_at = $3 WHERE no = $1";
            statements
                .execute(sql, &values![no, &put.text, put.now])
                .await?;
            no
        }
        None => {
            let bound = values![put.workspace, &put.key, &put.text, put.now];
            let row = statements
                .first(memory_words::insert_memory(S::DIALECT), &bound)
                .await?;
            row.ok_or_else(|| super::tenancy::missing("memories"))?
                .int("no")?
        }
    };
    memory_words::index(statements, put, no).await?;
    Ok(no)
}

async fn forget<S: Statements>(
    statements: &S,
    (workspace, key): &(WorkspaceNo, String),
) -> Result<bool, S::Error> {
    lock(statements, *workspace).await?;
    let Some(no) = find(statements, *workspace, key).await? else {
        return Ok(false);
    };
    delete(statements, no).await?;
    Ok(true)
}

async fn forget_before<S: Statements>(statements: &S, old: &Old) -> Result<usize, S::Error> {
    lock(statements, old.workspace).await?;
    let sql = "SELECT no FROM memories WHERE workspace = $1 AND updated_at < $2 ORDER BY updated_at LIMIT $3";
    let bound = values![old.workspace, old.before, number(old.limit)];
    let rows = statements.query(sql, &bound).await?;
    for row in &rows {
        delete(statements, row.int("no")?).await?;
    }
    Ok(rows.len())
}

async fn delete<S: Statements>(statements: &S, no: i64) -> Result<(), S::Error> {
    let links = "DELETE FROM memory_links WHERE source = $1 OR target = $1";
    statements.execute(links, &values![no]).await?;
    memory_words::remove(statements, no).await?;
    let memory = "DELETE FROM memories WHERE no = $1";
    statements.execute(memory, &values![no]).await?;
    Ok(())
}
