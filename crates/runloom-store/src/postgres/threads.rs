//! [`Threads`]: history of sessions, and the threads of AG-UI.

use async_trait::async_trait;
use runloom_ports::store::{CreatedSession, Millis};
use runloom_ports::store::{
    HistoryRun, LogTime, NewAgUiRun, NewSession, OpenedAgUiRun, RunNo, SessionNo, StoreResult,
    ThreadCreated, Threads, ToolMessageId, WorkspaceNo,
};
use runloom_protocol::id::SessionId;
use tokio_postgres::Row;

use super::columns::{get_text, get_time, get_word, text};
use super::error::Failure;
use super::pool::Session;
use super::{PostgresStore, int, sessions, uint};

#[async_trait]
impl Threads for PostgresStore {
    async fn history_runs(
        &self,
        session: SessionNo,
        before: Option<RunNo>,
        limit: usize,
    ) -> StoreResult<Vec<HistoryRun>> {
        let (of, before) = (session.0, before.map_or(i64::MAX, |run| run.0));
        let limit = int(limit as u64);
        let sql = "SELECT no, id, completed_at IS NOT NULL AS ended, spec, created_at FROM runs
            JOIN run_specs ON run_specs.run = runs.no WHERE session = $1 AND no < $2 ORDER BY no DESC LIMIT $3";
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&of, &before, &limit]).await?;
                rows.iter().map(history_run).collect()
            })
            .await
    }

    async fn log_times(&self, run: RunNo, seq: u64, limit: usize) -> StoreResult<Vec<LogTime>> {
        let (after, limit) = (int(seq), int(limit as u64));
        let sql = "SELECT last_seq, at FROM log
            WHERE run = $1 AND last_seq > $2 AND last_seq >= first_seq ORDER BY last_seq, no LIMIT $3";
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&run.0, &after, &limit]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(LogTime {
                            last_seq: uint(row.try_get("last_seq")?),
                            at: get_time(row, "at")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    async fn thread(&self, workspace: WorkspaceNo, key: &str) -> StoreResult<Option<SessionId>> {
        self.pool
            .read(|session| async move { session_of(&session, workspace, key).await })
            .await
    }

    async fn create_thread(&self, session: NewSession, key: &str) -> StoreResult<ThreadCreated> {
        let new = &session;
        let created = self
            .pool
            .transact("create_thread", |session| async move {
                create(&session, new, key).await
            })
            .await?;
        Ok(created)
    }

    async fn open_ag_ui_run(
        &self,
        session: SessionNo,
        run: NewAgUiRun,
    ) -> StoreResult<OpenedAgUiRun> {
        let (of, new) = (session.0, &run);
        let opened = self
            .pool
            .transact("open_ag_ui_run", |session| async move {
                open(&session, of, new).await
            })
            .await?;
        Ok(opened)
    }

    async fn withdraw_ag_ui_run(&self, session: SessionNo, id: &str) -> StoreResult<()> {
        let of = session.0;
        self.pool
            .transact("withdraw_ag_ui_run", |session| async move {
                let sql = "DELETE FROM ag_ui_runs WHERE session = $1 AND id = $2";
                session.execute(sql, &[&of, &text(id)]).await?;
                Ok(())
            })
            .await?;
        Ok(())
    }

    async fn followed_since(&self, session: SessionNo, since: Millis) -> StoreResult<bool> {
        let of = session.0;
        let sql =
            "SELECT EXISTS (SELECT 1 FROM ag_ui_runs WHERE session = $1 AND followed_at >= $2)";
        self.pool
            .read(|session| async move {
                match session.first(sql, &[&of, &since.0]).await? {
                    Some(row) => Ok(row.try_get(0)?),
                    None => Ok(false),
                }
            })
            .await
    }

    async fn tool_messages(&self, session: SessionNo) -> StoreResult<Vec<ToolMessageId>> {
        let of = session.0;
        let sql = "SELECT tool_use_id, message_id FROM tool_messages WHERE session = $1";
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&of]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(ToolMessageId {
                            tool_use_id: get_text(row, "tool_use_id")?,
                            message_id: get_text(row, "message_id")?,
                        })
                    })
                    .collect()
            })
            .await
    }
}

fn history_run(row: &Row) -> Result<HistoryRun, Failure> {
    Ok(HistoryRun {
        no: RunNo(row.try_get("no")?),
        id: get_word(row, "id")?,
        ended: row.try_get("ended")?,
        spec: get_text(row, "spec")?,
        created_at: get_time(row, "created_at")?,
    })
}

async fn session_of(
    session: &Session,
    workspace: WorkspaceNo,
    key: &str,
) -> Result<Option<SessionId>, Failure> {
    let sql = "SELECT sessions.id FROM threads JOIN sessions ON sessions.no = threads.session
        WHERE threads.workspace = $1 AND threads.key = $2";
    let row = session.first(sql, &[&workspace.0, &text(key)]).await?;
    row.map(|row| get_word(&row, "id")).transpose()
}

async fn create(session: &Session, new: &NewSession, key: &str) -> Result<ThreadCreated, Failure> {
    // Of two at once the second waits here, and finds what the first has made.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($2, $1))";
    session.first(lock, &[&new.workspace.0, &text(key)]).await?;
    if let Some(existing) = session_of(session, new.workspace, key).await? {
        return Ok(ThreadCreated::Existing(existing));
    }
    let new = &NewSession {
        idempotency: None,
        ..new.clone()
    };
    if let CreatedSession::Replayed(existing) = sessions::insert(session, new).await? {
        return Ok(ThreadCreated::Existing(existing));
    }
    let sql = "INSERT INTO threads (workspace, key, session) SELECT workspace, $2, no FROM sessions WHERE id = $1";
    session
        .execute(sql, &[&new.id.as_str(), &text(key)])
        .await?;
    Ok(ThreadCreated::New)
}

async fn open(session: &Session, of: i64, new: &NewAgUiRun) -> Result<OpenedAgUiRun, Failure> {
    // The row's `xmax` is 0 only when this statement inserted it.
    let row = session
        .first(
            "INSERT INTO ag_ui_runs (session, id, body, followed_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (session, id) DO UPDATE SET followed_at = excluded.followed_at
             RETURNING body, xmax = 0 AS inserted",
            &[&of, &text(&new.id), &text(&new.body), &new.at.0],
        )
        .await?;
    let Some(row) = row else {
        return Err(Failure::Late(0));
    };
    if !row.try_get::<_, bool>("inserted")? {
        return Ok(OpenedAgUiRun::Seen(get_text(&row, "body")?));
    }
    for message in &new.tool_messages {
        session
            .execute(
                "INSERT INTO tool_messages (session, tool_use_id, message_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                &[&of, &text(&message.tool_use_id), &text(&message.message_id)],
            )
            .await?;
    }
    Ok(OpenedAgUiRun::New)
}
