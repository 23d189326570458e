//! [`Retention`]: deleting what need not be kept any longer, a little at a time.

use async_trait::async_trait;
use runloom_ports::store::{Cutoffs, Millis, Purged, Retention, StoreResult, WorkspaceNo};
use runloom_protocol::resource::SessionStatus;
use runloom_protocol::spec::Metadata;
use rusqlite::{Connection, Row, params};

use super::columns::Json;
use super::transaction::Tx;
use super::{SqliteStore, filter, int, threads};

#[async_trait]
impl Retention for SqliteStore {
    async fn purge(&self, old: Cutoffs, limit: usize) -> StoreResult<Purged> {
        let mut purged = self
            .writer
            .run("purge", move |tx| purge(tx, old, limit))
            .await?;
        let Some(before) = old.unused else {
            return Ok(purged);
        };
        // Nothing but looking at every session finds them, which is not for the writer to do.
        let found = self
            .read(move |connection| unused(connection, before, limit))
            .await?;
        if found.is_empty() {
            return Ok(purged);
        }
        let swept = self
            .writer
            .run("purge", move |tx| {
                let still = still_unused(tx.connection, &found, before)?;
                forget(tx, &still, limit)
            })
            .await?;
        purged.sessions += swept.sessions;
        purged.more |= swept.more;
        Ok(purged)
    }
}

/// A row that carries labels.
struct Labelled {
    no: i64,
    workspace: WorkspaceNo,
    metadata: Metadata,
}

fn labelled(row: &Row<'_>) -> rusqlite::Result<Labelled> {
    Ok(Labelled {
        no: row.get(0)?,
        workspace: WorkspaceNo(row.get(1)?),
        metadata: row.get::<_, Json<Metadata>>(2)?.0,
    })
}

fn purge(tx: &Tx<'_>, old: Cutoffs, limit: usize) -> rusqlite::Result<Purged> {
    let keys = tx.execute(
        "DELETE FROM idempotency WHERE no IN
             (SELECT no FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
        params![old.keys.0, int(limit as u64)],
    )?;
    let Some(ended) = old.ended else {
        return Ok(Purged {
            more: keys == limit,
            ..Purged::default()
        });
    };
    let runs = purge_runs(tx, ended, limit)?;
    let sessions = forget(tx, &ended_sessions(tx.connection, ended, limit)?, limit)?;
    Ok(Purged {
        runs,
        sessions: sessions.sessions,
        more: keys == limit || runs == limit || sessions.more,
    })
}

fn purge_runs(tx: &Tx<'_>, before: Millis, limit: usize) -> rusqlite::Result<usize> {
    let old: Vec<Labelled> = tx
        .connection
        .prepare_cached(
            "SELECT no, workspace, metadata FROM runs
             WHERE completed_at IS NOT NULL AND completed_at < ?1 AND parent IS NULL
                 AND NOT EXISTS (SELECT 1 FROM runs AS below WHERE below.root = runs.no AND below.completed_at IS NULL)
             ORDER BY completed_at LIMIT ?2",
        )?
        .query_map([before.0, int(limit as u64)], labelled)?
        .collect::<rusqlite::Result<_>>()?;
    // Children go with their root.
    let mut gone = Vec::with_capacity(old.len());
    for run in &old {
        gone.extend(below(tx.connection, run.no)?);
    }
    for run in gone.iter().chain(&old) {
        filter::unlabel(tx, filter::Kind::Run, run.workspace, run.no, &run.metadata)?;
        tx.execute("DELETE FROM log WHERE run = ?1", params![run.no])?;
        tx.execute("DELETE FROM run_specs WHERE run = ?1", params![run.no])?;
        tx.execute("DELETE FROM feedback WHERE run = ?1", params![run.no])?;
        tx.execute(
            "DELETE FROM purses WHERE scope = 'run:' || (SELECT id FROM runs WHERE no = ?1)",
            params![run.no],
        )?;
        tx.execute("DELETE FROM approvals WHERE run = ?1", params![run.no])?;
        tx.execute("DELETE FROM runs WHERE no = ?1", params![run.no])?;
    }
    Ok(old.len())
}

/// The runs below a root.
fn below(connection: &Connection, root: i64) -> rusqlite::Result<Vec<Labelled>> {
    connection
        .prepare_cached("SELECT no, workspace, metadata FROM runs WHERE root = ?1")?
        .query_map([root], labelled)?
        .collect()
}

fn ended_sessions(
    connection: &Connection,
    before: Millis,
    limit: usize,
) -> rusqlite::Result<Vec<Labelled>> {
    connection
        .prepare_cached(
            "SELECT no, workspace, metadata FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.no AND runs.completed_at IS NULL)
             ORDER BY ended_at LIMIT ?2",
        )?
        .query_map([before.0, int(limit as u64)], labelled)?
        .collect()
}

/// Numbers of sessions that nobody has used since.
fn unused(connection: &Connection, before: Millis, limit: usize) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached(
            "SELECT no FROM sessions WHERE last_used_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.no AND runs.completed_at IS NULL)
             ORDER BY no LIMIT ?2",
        )?
        .query_map([before.0, int(limit as u64)], |row| row.get(0))?
        .collect()
}

/// Those of them that nobody has used since they were found either.
fn still_unused(
    connection: &Connection,
    found: &[i64],
    before: Millis,
) -> rusqlite::Result<Vec<Labelled>> {
    let mut statement = connection.prepare_cached(
        "SELECT no, workspace, metadata FROM sessions WHERE no = ?1 AND last_used_at < ?2
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.no AND runs.completed_at IS NULL)",
    )?;
    let mut still = Vec::with_capacity(found.len());
    for session in found {
        let rows = statement.query_map([*session, before.0], labelled)?;
        still.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(still)
}

/// Deletes sessions and what was said in them, at most `limit` messages.
fn forget(tx: &Tx<'_>, old: &[Labelled], limit: usize) -> rusqlite::Result<Purged> {
    let mut purged = Purged {
        more: old.len() >= limit,
        ..Purged::default()
    };
    let mut room = limit;
    for session in old {
        let messages = tx.execute(
            "DELETE FROM messages WHERE no IN
                 (SELECT no FROM messages WHERE session = ?1 ORDER BY n LIMIT ?2)",
            params![session.no, int(room as u64)],
        )?;
        room = room.saturating_sub(messages);
        if room == 0 {
            // Nobody may continue a conversation whose beginning is missing.
            tx.execute(
                "UPDATE sessions SET status = ?2, ended_at = coalesce(ended_at, last_used_at) WHERE no = ?1",
                params![session.no, SessionStatus::Ended.as_str()],
            )?;
            purged.more = true;
            break;
        }
        let (workspace, metadata) = (session.workspace, &session.metadata);
        filter::unlabel(tx, filter::Kind::Session, workspace, session.no, metadata)?;
        tx.execute(
            "DELETE FROM session_specs WHERE session = ?1",
            params![session.no],
        )?;
        threads::forget(tx, session.no)?;
        tx.execute("DELETE FROM sessions WHERE no = ?1", params![session.no])?;
        purged.sessions += 1;
    }
    Ok(purged)
}
