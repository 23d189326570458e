//! [`ProjectData`]: data of project modules.

use async_trait::async_trait;
use runloom_ports::store::{
    InviteRow, InviteStatus, Millis, OwnerErasure, ProjectChange, ProjectChanged, ProjectData,
    ProjectRecord, ProjectWrite, RECEIPT_MILLIS, RecordKind, RecordQuery, StoreResult, WorkspaceNo,
};
use runloom_protocol::id::{RunId, SessionId};
use tokio_postgres::Row;

use super::columns::{get_maybe_text, get_text, maybe_text, text};
use super::error::Failure;
use super::pool::Session;
use super::{PostgresStore, int, uint};

#[async_trait]
impl ProjectData for PostgresStore {
    async fn project_records(
        &self,
        workspace: WorkspaceNo,
        query: RecordQuery,
    ) -> StoreResult<Vec<ProjectRecord>> {
        let query = &query;
        self.pool
            .read(|session| async move {
                let ids = query.ids.as_ref();
                let ids = ids.map(|ids| ids.iter().map(|id| text(id)).collect::<Vec<_>>());
                let rows = session
                    .query(
                        "SELECT owner, id, starts, ends, words, body, version FROM project_records
                         WHERE workspace = $1 AND kind = $2 AND ($3::TEXT IS NULL OR owner = $3)
                           AND ($4::TEXT[] IS NULL OR id = ANY($4))
                           AND ($5::BIGINT IS NULL OR (ends > $5 AND starts < $6))
                           AND ($7::TEXT IS NULL OR strpos(words, $7) > 0)
                         ORDER BY starts, words, id LIMIT $8",
                        &[
                            &workspace.0,
                            &query.kind.as_str(),
                            &maybe_text(query.owner.as_ref()),
                            &ids,
                            &query.overlaps.map(|(start, _)| start.0),
                            &query.overlaps.map(|(_, end)| end.0),
                            &maybe_text(query.contains.as_ref()),
                            &int(query.limit as u64),
                        ],
                    )
                    .await?;
                rows.iter().map(|row| record(query.kind, row)).collect()
            })
            .await
    }

    async fn invites_of_events(
        &self,
        workspace: WorkspaceNo,
        events: &[String],
    ) -> StoreResult<Vec<InviteRow>> {
        self.pool
            .read(|session| async move {
                let events: Vec<_> = events.iter().map(|event| text(event)).collect();
                let rows = session
                    .query(
                        &format!("{INVITES} WHERE workspace = $1 AND event = ANY($2) ORDER BY no"),
                        &[&workspace.0, &events],
                    )
                    .await?;
                rows.iter().map(invite).collect()
            })
            .await
    }

    async fn invites_to(
        &self,
        workspace: WorkspaceNo,
        email: &str,
        limit: usize,
    ) -> StoreResult<Vec<InviteRow>> {
        self.pool
            .read(|session| async move {
                let rows = session
                    .query(
                        &format!(
                            "{INVITES} WHERE workspace = $1 AND email = $2 AND status <> 'rejected' ORDER BY no LIMIT $3"
                        ),
                        &[&workspace.0, &text(email), &int(limit as u64)],
                    )
                    .await?;
                rows.iter().map(invite).collect()
            })
            .await
    }

    async fn invite(&self, workspace: WorkspaceNo, id: &str) -> StoreResult<Option<InviteRow>> {
        self.pool
            .read(|session| async move {
                let sql = format!("{INVITES} WHERE workspace = $1 AND id = $2");
                let row = session.first(&sql, &[&workspace.0, &text(id)]).await?;
                row.as_ref().map(invite).transpose()
            })
            .await
    }

    async fn project_receipt(
        &self,
        workspace: WorkspaceNo,
        key: &str,
    ) -> StoreResult<Option<String>> {
        self.pool
            .read(|session| async move { receipt(&session, workspace, key).await })
            .await
    }

    async fn change_project(&self, change: ProjectChange) -> StoreResult<ProjectChanged> {
        let change = &change;
        let done = self
            .pool
            .transact("change_project", |session| async move {
                apply(&session, change).await
            })
            .await?;
        Ok(done)
    }

    async fn erase_project_owner(&self, erasure: OwnerErasure) -> StoreResult<u64> {
        let erasure = &erasure;
        let done = self
            .pool
            .transact("erase_project_owner", |session| async move {
                erase(&session, erasure).await
            })
            .await?;
        Ok(done)
    }

    async fn private_owner_of_run(
        &self,
        workspace: WorkspaceNo,
        run: &RunId,
    ) -> StoreResult<Option<String>> {
        private_owner(self, "runs", workspace, run.as_str()).await
    }

    async fn private_owner_of_session(
        &self,
        workspace: WorkspaceNo,
        session: &SessionId,
    ) -> StoreResult<Option<String>> {
        private_owner(self, "sessions", workspace, session.as_str()).await
    }
}

async fn private_owner(
    store: &PostgresStore,
    table: &'static str,
    workspace: WorkspaceNo,
    id: &str,
) -> StoreResult<Option<String>> {
    let sql = &format!("SELECT private_to FROM {table} WHERE workspace = $1 AND id = $2");
    store
        .pool
        .read(|session| async move {
            let row = session.first(sql, &[&workspace.0, &id]).await?;
            let owner = row.as_ref().map(|row| get_maybe_text(row, "private_to"));
            Ok(owner.transpose()?.flatten())
        })
        .await
}

const INVITES: &str = "SELECT id, event, email, status, message FROM project_invites";

fn record(kind: RecordKind, row: &Row) -> Result<ProjectRecord, Failure> {
    let (start, end): (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
    Ok(ProjectRecord {
        kind,
        owner: get_text(row, "owner")?,
        id: get_text(row, "id")?,
        span: start
            .zip(end)
            .map(|(start, end)| (Millis(start), Millis(end))),
        words: get_text(row, "words")?,
        body: get_text(row, "body")?,
        version: uint(row.try_get(6)?),
    })
}

fn invite(row: &Row) -> Result<InviteRow, Failure> {
    let status = get_text(row, "status")?;
    Ok(InviteRow {
        id: get_text(row, "id")?,
        event: get_text(row, "event")?,
        email: get_text(row, "email")?,
        status: InviteStatus::parse(&status).unwrap_or(InviteStatus::Pending),
        message: get_maybe_text(row, "message")?,
    })
}

async fn receipt(
    session: &Session,
    workspace: WorkspaceNo,
    key: &str,
) -> Result<Option<String>, Failure> {
    let row = session
        .first(
            "SELECT response FROM project_receipts WHERE workspace = $1 AND key = $2",
            &[&workspace.0, &text(key)],
        )
        .await?;
    row.as_ref()
        .map(|row| get_text(row, "response"))
        .transpose()
}

/// Changes of one workspace go one after the other, so that conditions that were checked still hold when it is written.
async fn apply(session: &Session, change: &ProjectChange) -> Result<ProjectChanged, Failure> {
    session
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('runloom project ' || $1::TEXT, 0))",
            &[&change.workspace.0.to_string()],
        )
        .await?;
    if let Some(own) = &change.receipt
        && let Some(response) = receipt(session, change.workspace, &own.key).await?
    {
        return Ok(ProjectChanged::Replayed(response));
    }
    for write in &change.writes {
        if let Some(obstacle) = obstacle(session, change.workspace, write).await? {
            return Ok(obstacle);
        }
    }
    for write in &change.writes {
        perform(session, change.workspace, write).await?;
    }
    if let Some(receipt) = &change.receipt {
        session
            .execute(
                "INSERT INTO project_receipts (workspace, key, owner, response, created_at) VALUES ($1, $2, $3, $4, $5)",
                &[
                    &change.workspace.0,
                    &text(&receipt.key),
                    &text(&change.owner),
                    &text(&receipt.response),
                    &change.now.0,
                ],
            )
            .await?;
        session
            .execute(
                "DELETE FROM project_receipts WHERE (workspace, key) IN
                     (SELECT workspace, key FROM project_receipts WHERE created_at < $1 LIMIT 100)",
                &[&change.now.0.saturating_sub(RECEIPT_MILLIS)],
            )
            .await?;
    }
    Ok(ProjectChanged::Applied)
}

async fn version(
    session: &Session,
    workspace: WorkspaceNo,
    (kind, owner, id): (RecordKind, &str, &str),
) -> Result<Option<i64>, Failure> {
    let row = session
        .first(
            "SELECT version FROM project_records WHERE workspace = $1 AND kind = $2 AND id = $3 AND owner = $4",
            &[&workspace.0, &kind.as_str(), &text(id), &text(owner)],
        )
        .await?;
    match row {
        Some(row) => Ok(Some(row.try_get(0)?)),
        None => Ok(None),
    }
}

async fn obstacle(
    session: &Session,
    workspace: WorkspaceNo,
    write: &ProjectWrite,
) -> Result<Option<ProjectChanged>, Failure> {
    Ok(match write {
        ProjectWrite::Insert { record, max } => {
            let row = session
                .first(
                    "SELECT count(*) FROM project_records WHERE workspace = $1 AND owner = $2 AND kind = $3",
                    &[&workspace.0, &text(&record.owner), &record.kind.as_str()],
                )
                .await?;
            let count: i64 = match row {
                Some(row) => row.try_get(0)?,
                None => 0,
            };
            let place = (record.kind, record.owner.as_str(), record.id.as_str());
            if uint(count) >= *max as u64 {
                Some(ProjectChanged::Full)
            } else {
                let found = version(session, workspace, place).await?;
                found.map(|_| ProjectChanged::Conflict)
            }
        }
        ProjectWrite::Update(record) => {
            let place = (record.kind, record.owner.as_str(), record.id.as_str());
            let found = version(session, workspace, place).await?;
            (found != Some(int(record.version))).then_some(ProjectChanged::Conflict)
        }
        ProjectWrite::Delete { kind, owner, id } => {
            let found = version(session, workspace, (*kind, owner, id)).await?;
            found.is_none().then_some(ProjectChanged::Conflict)
        }
        ProjectWrite::Invite(_) => None,
        ProjectWrite::Answer { id, from, .. } => {
            let row = session
                .first(
                    "SELECT status FROM project_invites WHERE workspace = $1 AND id = $2",
                    &[&workspace.0, &text(id)],
                )
                .await?;
            let found = row
                .as_ref()
                .map(|row| get_text(row, "status"))
                .transpose()?;
            (found.as_deref() != Some(from.as_str())).then_some(ProjectChanged::Conflict)
        }
    })
}

async fn perform(
    session: &Session,
    workspace: WorkspaceNo,
    write: &ProjectWrite,
) -> Result<(), Failure> {
    match write {
        ProjectWrite::Insert { record, .. } => {
            let sql = "INSERT INTO project_records (workspace, kind, owner, id, starts, ends, words, body, version)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)";
            put(session, workspace, record, sql).await?;
        }
        ProjectWrite::Update(record) => {
            let sql = "UPDATE project_records SET starts = $5, ends = $6, words = $7, body = $8, version = version + 1
                 WHERE workspace = $1 AND kind = $2 AND owner = $3 AND id = $4";
            put(session, workspace, record, sql).await?;
        }
        ProjectWrite::Delete { kind, owner, id } => {
            if *kind == RecordKind::Event {
                session
                    .execute(
                        "DELETE FROM project_invites WHERE workspace = $1 AND event = $2",
                        &[&workspace.0, &text(id)],
                    )
                    .await?;
            }
            session
                .execute(
                    "DELETE FROM project_records WHERE workspace = $1 AND kind = $2 AND owner = $3 AND id = $4",
                    &[&workspace.0, &kind.as_str(), &text(owner), &text(id)],
                )
                .await?;
        }
        ProjectWrite::Invite(row) => {
            session
                .execute(
                    "INSERT INTO project_invites (workspace, id, event, email, status, message)
                     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (workspace, event, email) DO NOTHING",
                    &[
                        &workspace.0,
                        &text(&row.id),
                        &text(&row.event),
                        &text(&row.email),
                        &row.status.as_str(),
                        &maybe_text(row.message.as_ref()),
                    ],
                )
                .await?;
        }
        ProjectWrite::Answer { id, to, .. } => {
            session
                .execute(
                    "UPDATE project_invites SET status = $3 WHERE workspace = $1 AND id = $2",
                    &[&workspace.0, &text(id), &to.as_str()],
                )
                .await?;
        }
    }
    Ok(())
}

async fn put(
    session: &Session,
    workspace: WorkspaceNo,
    record: &ProjectRecord,
    sql: &str,
) -> Result<(), Failure> {
    session
        .execute(
            sql,
            &[
                &workspace.0,
                &record.kind.as_str(),
                &text(&record.owner),
                &text(&record.id),
                &record.span.map(|(start, _)| start.0),
                &record.span.map(|(_, end)| end.0),
                &text(&record.words),
                &text(&record.body),
            ],
        )
        .await?;
    Ok(())
}

async fn erase(session: &Session, erasure: &OwnerErasure) -> Result<u64, Failure> {
    let (workspace, owner) = (erasure.workspace.0, text(&erasure.owner));
    let mut gone = session
        .execute(
            "DELETE FROM project_invites WHERE workspace = $1 AND (email = $3 OR event IN
                 (SELECT id FROM project_records WHERE workspace = $1 AND owner = $2 AND kind = 'event'))",
            &[&workspace, &owner, &maybe_text(erasure.email.as_ref())],
        )
        .await?;
    for table in ["project_records", "project_receipts"] {
        let sql = format!("DELETE FROM {table} WHERE workspace = $1 AND owner = $2");
        gone += session.execute(&sql, &[&workspace, &owner]).await?;
    }
    Ok(gone)
}
