//! [`Sessions`]: conversations kept between runs.

use async_trait::async_trait;
use runloom_ports::store::{
    CreatedSession, Earlier, Ended, MailBody, Millis, NewSession, Page, ResumedSession,
    SessionFilter, SessionNo, SessionRow, SessionSummary, Sessions, StoreResult, WorkspaceNo,
};
use runloom_protocol::id::SessionId;
use runloom_protocol::resource::SessionStatus;
use runloom_protocol::spec::{Metadata, PromptMessage};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::columns::{Json, Word, time};
use super::filter::{self, Conditions};
use super::transaction::Tx;
use super::{SqliteStore, create, int, mail, uint};

#[async_trait]
impl Sessions for SqliteStore {
    fn is_shared(&self) -> bool {
        false
    }

    async fn create_session(&self, session: NewSession) -> StoreResult<CreatedSession> {
        self.writer
            .run("create_session", move |tx| insert(tx, &session))
            .await
    }

    async fn session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
    ) -> StoreResult<Option<SessionRow>> {
        let id = id.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} WHERE sessions.id = ?1 AND sessions.workspace = ?2"
                ))?
                .query_row(params![id.as_str(), workspace.0], session_row)
                .optional()
        })
        .await
    }

    async fn session_messages(
        &self,
        session: SessionNo,
        before: Option<u64>,
        limit: usize,
        max_bytes: usize,
    ) -> StoreResult<Vec<(u64, PromptMessage)>> {
        self.read(move |connection| last_messages(connection, session, before, (limit, max_bytes)))
            .await
    }

    async fn resume_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        known: Option<u64>,
    ) -> StoreResult<Option<ResumedSession>> {
        let id = id.clone();
        self.read(move |connection| resume(connection, workspace, &id, known))
            .await
    }

    async fn count_messages(&self, session: SessionNo) -> StoreResult<u64> {
        self.read(move |connection| {
            let count = connection
                .prepare_cached(
                    "SELECT count(*) FROM messages WHERE session = ?1 AND body NOT LIKE '{\"unfinished\":true%'",
                )?
                .query_row([session.0], |row| Ok(uint(row.get(0)?)))
                .optional()?;
            Ok(count.unwrap_or(0))
        })
        .await
    }

    async fn end_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        now: Millis,
    ) -> StoreResult<Ended> {
        let id = id.clone();
        self.writer
            .run("end_session", move |tx| end(tx, workspace, &id, now))
            .await
    }

    async fn list_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
        page: Page,
    ) -> StoreResult<Vec<SessionSummary>> {
        let (rest, values) = Conditions::of_sessions(workspace, filter).listing("sessions", page);
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT no, id, name, status, metadata, created_at, last_used_at FROM sessions{rest}"
                ))?
                .query_map(params_from_iter(values), session_summary)?
                .collect()
        })
        .await
    }

    async fn count_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
    ) -> StoreResult<u64> {
        let (rest, values) = Conditions::of_sessions(workspace, filter).counting();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("SELECT count(*) FROM sessions{rest}"))?
                .query_row(params_from_iter(values), |row| Ok(uint(row.get(0)?)))
        })
        .await
    }
}

fn resume(
    connection: &Connection,
    workspace: WorkspaceNo,
    id: &SessionId,
    known: Option<u64>,
) -> rusqlite::Result<Option<ResumedSession>> {
    let row = connection
        .prepare_cached(&format!(
            "{SELECT} WHERE sessions.id = ?1 AND sessions.workspace = ?2"
        ))?
        .query_row(params![id.as_str(), workspace.0], session_row)
        .optional()?;
    let Some(row) = row else { return Ok(None) };
    let busy = create::has_live_run(connection, row.no.0)?;
    let since = match known {
        None => Vec::new(),
        Some(known) => connection
            .prepare_cached("SELECT body FROM messages WHERE session = ?1 AND n > ?2 ORDER BY n")?
            .query_map([row.no.0, int(known)], |row| {
                Ok(row.get::<_, Json<PromptMessage>>(0)?.0)
            })?
            .collect::<rusqlite::Result<_>>()?,
    };
    Ok(Some(ResumedSession { row, since, busy }))
}

const SELECT: &str =
    "SELECT sessions.*, session_specs.spec, session_specs.public_spec FROM sessions
    JOIN session_specs ON session_specs.session = sessions.no";

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        no: SessionNo(row.get("no")?),
        id: row.get::<_, Word<SessionId>>("id")?.0,
        name: row.get("name")?,
        status: row.get::<_, Word<SessionStatus>>("status")?.0,
        spec: row.get("spec")?,
        public_spec: row.get("public_spec")?,
        active_model: row.get("active_model")?,
        metadata: row.get::<_, Json<Metadata>>("metadata")?.0,
        created_at: Millis(row.get("created_at")?),
        last_used_at: Millis(row.get("last_used_at")?),
        ended_at: time(row, "ended_at")?,
    })
}

fn session_summary(row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    Ok(SessionSummary {
        no: SessionNo(row.get("no")?),
        id: row.get::<_, Word<SessionId>>("id")?.0,
        name: row.get("name")?,
        status: row.get::<_, Word<SessionStatus>>("status")?.0,
        metadata: row.get::<_, Json<Metadata>>("metadata")?.0,
        created_at: Millis(row.get("created_at")?),
        last_used_at: Millis(row.get("last_used_at")?),
    })
}

fn last_messages(
    connection: &Connection,
    session: SessionNo,
    before: Option<u64>,
    (limit, max_bytes): (usize, usize),
) -> rusqlite::Result<Vec<(u64, PromptMessage)>> {
    let mut statement = connection.prepare_cached(
        "SELECT n, body FROM messages WHERE session = ?1 AND n < ?2 AND body NOT LIKE '{\"unfinished\":true%'
         ORDER BY n DESC LIMIT ?3",
    )?;
    let before = before.map_or(i64::MAX, int);
    let mut rows = statement.query([session.0, before, int(limit as u64)])?;
    let mut messages = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += row.get_ref(1)?.as_str()?.len();
        if bytes > max_bytes && !messages.is_empty() {
            break;
        }
        let body = row.get::<_, Json<PromptMessage>>(1)?.0;
        messages.push((uint(row.get(0)?), body));
    }
    messages.reverse();
    Ok(messages)
}

/// Inserts a session.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSession) -> rusqlite::Result<CreatedSession> {
    if let Some(key) = &new.idempotency {
        match create::earlier_use(tx.connection, new.workspace, key)? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(CreatedSession::KeyReused),
            Earlier::Same(answer) => {
                let first = SessionId::parse(&answer);
                return Ok(first.map_or(CreatedSession::KeyReused, CreatedSession::Replayed));
            }
        }
    }
    tx.execute(
        "INSERT INTO sessions (id, workspace, status, name, metadata, created_at, last_used_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        params![
            new.id.as_str(),
            new.workspace.0,
            SessionStatus::Active.as_str(),
            new.name,
            Json(&new.metadata),
            new.created_at.0,
        ],
    )?;
    let session = tx.connection.last_insert_rowid();
    tx.execute(
        "INSERT INTO session_specs (session, spec, public_spec) VALUES (?1, ?2, ?3)",
        params![session, new.spec, new.public_spec],
    )?;
    filter::label(
        tx,
        filter::Kind::Session,
        new.workspace,
        session,
        &new.metadata,
    )?;
    if let Some(owner) = &new.private_to {
        tx.execute(
            "UPDATE sessions SET private_to = ?2 WHERE no = ?1",
            params![session, owner],
        )?;
    }
    if let Some(key) = &new.idempotency {
        create::remember_use(tx, new.workspace, key, new.id.as_str(), new.created_at)?;
    }
    Ok(CreatedSession::New)
}

fn end(
    tx: &mut Tx<'_>,
    workspace: WorkspaceNo,
    id: &SessionId,
    now: Millis,
) -> rusqlite::Result<Ended> {
    let Some((session, status)) = create::session(tx, workspace, id.as_str())? else {
        return Ok(Ended::UnknownSession);
    };
    let session = session.no;
    if status == SessionStatus::Active {
        tx.execute(
            "UPDATE sessions SET status = ?2, ended_at = ?3 WHERE no = ?1",
            params![session, SessionStatus::Ended.as_str(), now.0],
        )?;
    }
    let body = MailBody::Cancel {
        reason: "session_ended".to_owned(),
    };
    let live = mail::live_in_session(tx, session)?;
    let told = live
        .iter()
        .filter(|run| !run.cancel)
        .map(|run| mail::send(tx, run, &body, now))
        .collect::<rusqlite::Result<_>>()?;
    Ok(Ended::Ended(told))
}
