//! [`Sessions`]: conversations kept between runs.

use async_trait::async_trait;
use runloom_ports::store::{
    CreatedSession, Earlier, Ended, MailBody, Millis, NewSession, Page, ResumedSession,
    SessionFilter, SessionNo, SessionRow, SessionSummary, Sessions, StoreResult, WorkspaceNo,
};
use runloom_protocol::id::SessionId;
use runloom_protocol::resource::SessionStatus;
use runloom_protocol::spec::PromptMessage;
use tokio_postgres::Row;

use super::columns::{
    Json, get_json, get_maybe_text, get_maybe_time, get_text, get_time, get_word, maybe_text, text,
    to_json,
};
use super::error::Failure;
use super::filter::{self, Conditions};
use super::pool::Session;
use super::{PostgresStore, create, int, mail, uint};

#[async_trait]
impl Sessions for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn create_session(&self, session: NewSession) -> StoreResult<CreatedSession> {
        let new = &session;
        let created = self
            .pool
            .transact("create_session", |session| async move {
                insert(&session, new).await
            })
            .await?;
        Ok(created)
    }

    async fn session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
    ) -> StoreResult<Option<SessionRow>> {
        let sql = &format!("{SELECT} WHERE sessions.id = $1 AND sessions.workspace = $2");
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[&id.as_str(), &workspace.0]).await?;
                row.as_ref().map(session_row).transpose()
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
        let of = session.0;
        let before = before.map_or(i64::MAX, int);
        let (limit, room) = (int(limit as u64), int(max_bytes as u64));
        self.pool
            .read(|session| async move {
                let rows = session
                    .query(LAST_MESSAGES, &[&of, &before, &limit, &room])
                    .await?;
                rows.iter()
                    .map(|row| {
                        let body = row.try_get::<_, Json<PromptMessage>>(1)?.0;
                        Ok((uint(row.try_get(0)?), body))
                    })
                    .collect()
            })
            .await
    }

    async fn resume_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        known: Option<u64>,
    ) -> StoreResult<Option<ResumedSession>> {
        let sql = &format!("{SELECT} WHERE sessions.id = $1 AND sessions.workspace = $2");
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[&id.as_str(), &workspace.0]).await?;
                let Some(row) = row.as_ref().map(session_row).transpose()? else {
                    return Ok(None);
                };
                let busy = create::has_live_run(&session, row.no.0).await?;
                let since = match known {
                    None => Vec::new(),
                    Some(known) => messages_after(&session, row.no, known).await?,
                };
                Ok(Some(ResumedSession { row, since, busy }))
            })
            .await
    }

    async fn count_messages(&self, session: SessionNo) -> StoreResult<u64> {
        let of = session.0;
        self.pool
            .read(|session| async move {
                let row = session
                    .first(
                        "SELECT count(*) FROM messages WHERE session = $1 AND body NOT LIKE '{\"unfinished\":true%'",
                        &[&of],
                    )
                    .await?;
                match row {
                    Some(row) => Ok(uint(row.try_get(0)?)),
                    None => Ok(0),
                }
            })
            .await
    }

    async fn end_session(
        &self,
        workspace: WorkspaceNo,
        id: &SessionId,
        now: Millis,
    ) -> StoreResult<Ended> {
        let silence = self.workers.silence();
        let ended = self
            .pool
            .transact("end_session", |session| async move {
                end(&session, (workspace, id), now, silence).await
            })
            .await?;
        if let Ended::Ended(told) = &ended {
            told.iter()
                .for_each(|delivery| self.writer.notify(mail::notice(*delivery)));
        }
        Ok(ended)
    }

    async fn list_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
        page: Page,
    ) -> StoreResult<Vec<SessionSummary>> {
        let conditions = &Conditions::of_sessions(workspace, filter).listing("sessions", page);
        let sql = &format!(
            "SELECT no, id, name, status, metadata, created_at, last_used_at FROM sessions{}",
            conditions.sql()
        );
        self.pool
            .read(|session| async move {
                let rows = session.query_once(sql, &conditions.values()).await?;
                rows.iter().map(session_summary).collect()
            })
            .await
    }

    async fn count_sessions(
        &self,
        workspace: WorkspaceNo,
        filter: &SessionFilter,
    ) -> StoreResult<u64> {
        let conditions = Conditions::of_sessions(workspace, filter);
        self.count("sessions", &conditions).await
    }
}

const SELECT: &str =
    "SELECT sessions.*, session_specs.spec, session_specs.public_spec FROM sessions
    JOIN session_specs ON session_specs.session = sessions.no";

fn session_row(row: &Row) -> Result<SessionRow, Failure> {
    Ok(SessionRow {
        no: SessionNo(row.try_get("no")?),
        id: get_word(row, "id")?,
        name: get_maybe_text(row, "name")?,
        status: get_word(row, "status")?,
        active_model: get_maybe_text(row, "active_model")?,
        spec: get_text(row, "spec")?,
        public_spec: get_text(row, "public_spec")?,
        metadata: get_json(row, "metadata")?,
        created_at: get_time(row, "created_at")?,
        last_used_at: get_time(row, "last_used_at")?,
        ended_at: get_maybe_time(row, "ended_at")?,
    })
}

/// The sum runs from the newest backwards, so that the server sends no more than what fits, and always the newest.
const LAST_MESSAGES: &str = "SELECT n, body FROM (
        SELECT n, body, sum(octet_length(body)) OVER (ORDER BY n DESC) AS bytes, row_number() OVER (ORDER BY n DESC) AS nth
        FROM (SELECT n, body FROM messages WHERE session = $1 AND n < $2 AND body NOT LIKE '{\"unfinished\":true%'
              ORDER BY n DESC LIMIT $3) AS page
    ) AS sized WHERE nth = 1 OR bytes <= $4 ORDER BY n";

fn session_summary(row: &Row) -> Result<SessionSummary, Failure> {
    Ok(SessionSummary {
        no: SessionNo(row.try_get("no")?),
        id: get_word(row, "id")?,
        name: get_maybe_text(row, "name")?,
        status: get_word(row, "status")?,
        metadata: get_json(row, "metadata")?,
        created_at: get_time(row, "created_at")?,
        last_used_at: get_time(row, "last_used_at")?,
    })
}

/// Inserts a session.
pub(super) async fn insert(session: &Session, new: &NewSession) -> Result<CreatedSession, Failure> {
    if let Some(key) = &new.idempotency {
        match create::earlier_use(session, new.workspace, key).await? {
            Earlier::None => {}
            Earlier::OtherBody(_) => return Ok(CreatedSession::KeyReused),
            Earlier::Same(answer) => {
                let first = SessionId::parse(&answer);
                return Ok(first.map_or(CreatedSession::KeyReused, CreatedSession::Replayed));
            }
        }
    }
    let row = session
        .first(
            "WITH session AS (
                 INSERT INTO sessions (id, workspace, status, name, metadata, created_at, last_used_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $6) RETURNING no)
             INSERT INTO session_specs (session, spec, public_spec) SELECT no, $7, $8 FROM session RETURNING session",
            &[
                &new.id.as_str(),
                &new.workspace.0,
                &SessionStatus::Active.as_str(),
                &maybe_text(new.name.as_ref()),
                &to_json(&new.metadata)?,
                &new.created_at.0,
                &text(&new.spec),
                &text(&new.public_spec),
            ],
        )
        .await?;
    let Some(row) = row else {
        return Err(Failure::Late(0));
    };
    filter::label(
        session,
        filter::Kind::Session,
        new.workspace,
        row.try_get(0)?,
        &new.metadata,
    )
    .await?;
    if let Some(owner) = &new.private_to {
        let no: i64 = row.try_get(0)?;
        session
            .execute(
                "UPDATE sessions SET private_to = $2 WHERE no = $1",
                &[&no, &text(owner)],
            )
            .await?;
    }
    if let Some(key) = &new.idempotency {
        create::remember_use(session, new.workspace, key, new.id.as_str(), new.created_at).await?;
    }
    Ok(CreatedSession::New)
}

async fn end(
    session: &Session,
    (workspace, id): (WorkspaceNo, &SessionId),
    now: Millis,
    silence: f64,
) -> Result<Ended, Failure> {
    let Some((of, status, _)) = create::lock_session(session, workspace, id.as_str()).await? else {
        return Ok(Ended::UnknownSession);
    };
    if status == SessionStatus::Active {
        session
            .execute(
                "UPDATE sessions SET status = $2, ended_at = $3 WHERE no = $1",
                &[&of, &SessionStatus::Ended.as_str(), &now.0],
            )
            .await?;
    }
    let body = MailBody::Cancel {
        reason: "session_ended".to_owned(),
    };
    let mut told = Vec::new();
    for run in mail::live_in_session(session, of, silence).await? {
        if !run.cancel {
            told.push(mail::send(session, &run, &body, now).await?);
        }
    }
    Ok(Ended::Ended(told))
}

async fn messages_after(
    session: &Session,
    of: SessionNo,
    known: u64,
) -> Result<Vec<PromptMessage>, Failure> {
    let rows = session
        .query(
            "SELECT body FROM messages WHERE session = $1 AND n > $2 ORDER BY n",
            &[&of.0, &int(known)],
        )
        .await?;
    rows.iter()
        .map(|row| Ok(row.try_get::<_, Json<PromptMessage>>(0)?.0))
        .collect()
}
