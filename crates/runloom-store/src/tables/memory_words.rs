//! The words of memories, and the search for them. SQLite has an FTS5 table, PostgreSQL a column of type `tsvector`.
//!
//! The order of the results depends on the memories of the workspace alone. FTS5's own ranking counts the rows of all
//! workspaces, so that it would tell one workspace about the words of another.

use runloom_ports::store::{MemoryRow, PutMemory, WorkspaceNo};

use super::memories::{COLUMNS, memory_row};
use crate::sql::{Dialect, Malformed, Statements, number, values};

/// A search for memories of one workspace.
pub(super) struct Search {
    pub(super) workspace: WorkspaceNo,
    pub(super) words: Vec<String>,
    pub(super) limit: usize,
}

/// Inserts a memory (workspace, key, text, time) without its words, and returns its number.
pub(super) fn insert_memory(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "INSERT INTO memories (workspace, key, text, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) RETURNING no"
        }
        Dialect::Postgres => {
            "INSERT INTO memories (workspace, key, text, words, created_at, updated_at)
             VALUES ($1, $2, $3, ''::TSVECTOR, $4, $4) RETURNING no"
        }
    }
}

/// Writes the words of a memory, replacing those before.
pub(super) async fn index<S: Statements>(
    statements: &S,
    put: &PutMemory,
    no: i64,
) -> Result<(), S::Error> {
    match S::DIALECT {
        Dialect::Sqlite => {
            let sql = "DELETE FROM memory_words WHERE rowid = $1";
            statements.execute(sql, &values![no]).await?;
            let sql = "INSERT INTO memory_words (rowid, tenant, words) VALUES ($1, $2, $3)";
            let bound = values![no, tenant(put.workspace), &put.words];
            statements.execute(sql, &bound).await?;
            flush(statements).await
        }
        Dialect::Postgres => {
            let sql = "UPDATE memories SET words = to_tsvector('simple', $2) || to_tsvector('english', $2) WHERE no = $1";
            statements.execute(sql, &values![no, &put.words]).await?;
            Ok(())
        }
    }
}

/// Removes the words of a memory that is deleted.
pub(super) async fn remove<S: Statements>(statements: &S, no: i64) -> Result<(), S::Error> {
    if S::DIALECT == Dialect::Sqlite {
        let sql = "DELETE FROM memory_words WHERE rowid = $1";
        statements.execute(sql, &values![no]).await?;
        flush(statements).await?;
    }
    Ok(())
}

/// Has FTS5 write its index now. Otherwise it does so when the transaction is committed, and a fault in it would
/// appear after the write was answered.
async fn flush<S: Statements>(statements: &S) -> Result<(), S::Error> {
    for sql in ["SAVEPOINT words", "RELEASE words"] {
        statements.execute(sql, &[]).await?;
    }
    Ok(())
}

/// Memories that have one of the words or a word that begins with it, best first.
pub(super) async fn search<S: Statements>(
    statements: &S,
    search: &Search,
) -> Result<Vec<MemoryRow>, S::Error> {
    let words = plain(&search.words);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let (sql, question) = match S::DIALECT {
        Dialect::Sqlite => (SEARCH_SQLITE, sqlite_question(search.workspace, &words)?),
        Dialect::Postgres => (SEARCH_POSTGRES, postgres_question(&words)),
    };
    let sql = sql.replace("COLUMNS", COLUMNS);
    let bound = values![search.workspace, question, number(search.limit)];
    let rows = statements.query(&sql, &bound).await?;
    Ok(rows.iter().map(memory_row).collect::<Result<_, _>>()?)
}

/// Each word counts the more, the fewer memories of the workspace have it. `CROSS JOIN` keeps the order of the
/// tables: the index is asked once for each word.
const SEARCH_SQLITE: &str = "WITH hits AS MATERIALIZED (
        SELECT asked.key AS word, found.rowid AS no
        FROM json_each($2) AS asked CROSS JOIN memory_words(asked.value) AS found),
    weights AS (
        SELECT word, 1.0 / (1.0 + 10.0 * count(*) / (SELECT count(*) FROM memories WHERE workspace = $1)) AS weight
        FROM hits GROUP BY word),
    scores AS (SELECT no, sum(weight) AS score FROM hits JOIN weights USING (word) GROUP BY no)
    SELECT COLUMNS FROM scores JOIN memories ON memories.no = scores.no
    WHERE workspace = $1 ORDER BY score DESC, updated_at DESC, memories.no DESC LIMIT $3";

const SEARCH_POSTGRES: &str = "SELECT COLUMNS FROM memories,
        (SELECT to_tsquery('simple', $2) || to_tsquery('english', $2) AS wanted) AS asked
    WHERE workspace = $1 AND words @@ wanted
    ORDER BY ts_rank(words, wanted, 1) DESC, updated_at DESC, no DESC LIMIT $3";

/// One word that only the memories of a workspace have, so that a search does not read those of others.
fn tenant(workspace: WorkspaceNo) -> String {
    format!("w{}", workspace.0)
}

/// Letters and digits alone, so that nothing in a word is read as syntax.
fn plain(words: &[String]) -> Vec<String> {
    let plain = |word: &String| word.chars().filter(|c| c.is_alphanumeric()).collect();
    let words = words.iter().map(plain);
    words.filter(|word: &String| !word.is_empty()).collect()
}

/// One FTS5 query per word, as a JSON array.
fn sqlite_question(workspace: WorkspaceNo, words: &[String]) -> Result<String, Malformed> {
    let tenant = tenant(workspace);
    let queries: Vec<String> = words
        .iter()
        .map(|word| format!("tenant : \"{tenant}\" AND words : \"{word}\" *"))
        .collect();
    serde_json::to_string(&queries).map_err(|error| Malformed::new("words", error))
}

/// All words as one question of `to_tsquery`.
fn postgres_question(words: &[String]) -> String {
    let prefixes: Vec<String> = words.iter().map(|word| format!("{word}:*")).collect();
    prefixes.join(" | ")
}
