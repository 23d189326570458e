//! [`Threads`]: history of sessions, and the threads of AG-UI.

use async_trait::async_trait;
use runloom_ports::store::{
    CreatedSession, HistoryRun, LogTime, Millis, NewAgUiRun, NewSession, OpenedAgUiRun, RunNo,
    SessionNo, StoreResult, ThreadCreated, Threads, ToolMessageId, WorkspaceNo,
};
use runloom_protocol::id::{RunId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::Word;
use super::transaction::Tx;
use super::{SqliteStore, int, sessions, uint};

#[async_trait]
impl Threads for SqliteStore {
    async fn history_runs(
        &self,
        session: SessionNo,
        before: Option<RunNo>,
        limit: usize,
    ) -> StoreResult<Vec<HistoryRun>> {
        let before = before.map_or(i64::MAX, |run| run.0);
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT no, id, completed_at IS NOT NULL, spec, created_at FROM runs
                     JOIN run_specs ON run_specs.run = runs.no
                     WHERE session = ?1 AND no < ?2 ORDER BY no DESC LIMIT ?3",
                )?
                .query_map([session.0, before, int(limit as u64)], |row| {
                    Ok(HistoryRun {
                        no: RunNo(row.get(0)?),
                        id: row.get::<_, Word<RunId>>(1)?.0,
                        ended: row.get(2)?,
                        spec: row.get(3)?,
                        created_at: Millis(row.get(4)?),
                    })
                })?
                .collect()
        })
        .await
    }

    async fn log_times(&self, run: RunNo, seq: u64, limit: usize) -> StoreResult<Vec<LogTime>> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT last_seq, at FROM log
                     WHERE run = ?1 AND last_seq > ?2 AND last_seq >= first_seq ORDER BY last_seq, no LIMIT ?3",
                )?
                .query_map([run.0, int(seq), int(limit as u64)], |row| {
                    Ok(LogTime {
                        last_seq: uint(row.get(0)?),
                        at: Millis(row.get(1)?),
                    })
                })?
                .collect()
        })
        .await
    }

    async fn thread(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<Option<SessionId>> {
        let key = key.to_owned();
        self.read(move |connection| session_of(connection, workspace, &key))
            .await
    }

    async fn create_thread(&self, session: NewSession, key: &str) -> StoreResult<ThreadCreated> {
        let key = key.to_owned();
        self.writer
            .run("create_thread", move |tx| create(tx, &session, &key))
            .await
    }

    async fn open_ag_ui_run(
        &self,
        session: SessionNo,
        run: NewAgUiRun,
    ) -> StoreResult<OpenedAgUiRun> {
        self.writer
            .run("open_ag_ui_run", move |tx| open(tx, session, &run))
            .await
    }

    async fn withdraw_ag_ui_run(&self, session: SessionNo, id: &str) -> StoreResult<()> {
        let id = id.to_owned();
        self.writer
            .run("withdraw_ag_ui_run", move |tx| {
                tx.execute(
                    "DELETE FROM ag_ui_runs WHERE session = ?1 AND id = ?2",
                    params![session.0, id],
                )?;
                Ok(())
            })
            .await
    }

    async fn followed_since(&self, session: SessionNo, since: Millis) -> StoreResult<bool> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM ag_ui_runs WHERE session = ?1 AND followed_at >= ?2)",
                )?
                .query_row([session.0, since.0], |row| row.get(0))
        })
        .await
    }

    async fn tool_messages(&self, session: SessionNo) -> StoreResult<Vec<ToolMessageId>> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT tool_use_id, message_id FROM tool_messages WHERE session = ?1",
                )?
                .query_map([session.0], |row| {
                    Ok(ToolMessageId {
                        tool_use_id: row.get(0)?,
                        message_id: row.get(1)?,
                    })
                })?
                .collect()
        })
        .await
    }
}

/// Deletes what is remembered of a session's thread.
pub(super) fn forget(tx: &Tx<'_>, session: i64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM threads WHERE session = ?1",
        "DELETE FROM ag_ui_runs WHERE session = ?1",
        "DELETE FROM tool_messages WHERE session = ?1",
    ] {
        tx.execute(sql, params![session])?;
    }
    Ok(())
}

fn session_of(
    connection: &Connection,
    workspace: WorkspaceNo,
    key: &str,
) -> rusqlite::Result<Option<SessionId>> {
    connection
        .prepare_cached(
            "SELECT sessions.id FROM threads JOIN sessions ON sessions.no = threads.session
             WHERE threads.workspace = ?1 AND threads.key = ?2",
        )?
        .query_row(params![workspace.0, key], |row| {
            Ok(row.get::<_, Word<SessionId>>(0)?.0)
        })
        .optional()
}

fn create(tx: &Tx<'_>, new: &NewSession, key: &str) -> rusqlite::Result<ThreadCreated> {
    if let Some(existing) = session_of(tx.connection, new.workspace, key)? {
        return Ok(ThreadCreated::Existing(existing));
    }
    let new = NewSession {
        idempotency: None,
        ..new.clone()
    };
    if let CreatedSession::Replayed(existing) = sessions::insert(tx, &new)? {
        return Ok(ThreadCreated::Existing(existing));
    }
    tx.execute(
        "INSERT INTO threads (workspace, key, session) SELECT workspace, ?2, no FROM sessions WHERE id = ?1",
        params![new.id.as_str(), key],
    )?;
    Ok(ThreadCreated::New)
}

fn open(tx: &Tx<'_>, session: SessionNo, new: &NewAgUiRun) -> rusqlite::Result<OpenedAgUiRun> {
    let seen: Option<String> = tx
        .connection
        .prepare_cached("SELECT body FROM ag_ui_runs WHERE session = ?1 AND id = ?2")?
        .query_row(params![session.0, new.id], |row| row.get(0))
        .optional()?;
    if let Some(body) = seen {
        tx.execute(
            "UPDATE ag_ui_runs SET followed_at = ?3 WHERE session = ?1 AND id = ?2",
            params![session.0, new.id, new.at.0],
        )?;
        return Ok(OpenedAgUiRun::Seen(body));
    }
    tx.execute(
        "INSERT INTO ag_ui_runs (session, id, body, followed_at) VALUES (?1, ?2, ?3, ?4)",
        params![session.0, new.id, new.body, new.at.0],
    )?;
    for message in &new.tool_messages {
        tx.execute(
            "INSERT OR IGNORE INTO tool_messages (session, tool_use_id, message_id) VALUES (?1, ?2, ?3)",
            params![session.0, message.tool_use_id, message.message_id],
        )?;
    }
    Ok(OpenedAgUiRun::New)
}
