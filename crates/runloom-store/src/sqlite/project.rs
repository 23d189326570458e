//! [`ProjectData`]: data of project modules.

use async_trait::async_trait;
use runloom_ports::store::{
    InviteRow, InviteStatus, Millis, OwnerErasure, ProjectChange, ProjectChanged, ProjectData,
    ProjectRecord, ProjectWrite, RECEIPT_MILLIS, RecordKind, RecordQuery, StoreResult, WorkspaceNo,
};
use runloom_protocol::id::{RunId, SessionId};
use rusqlite::{OptionalExtension, Row, params};

use super::columns::Json;
use super::transaction::Tx;
use super::{SqliteStore, int, uint};

#[async_trait]
impl ProjectData for SqliteStore {
    async fn project_records(
        &self,
        workspace: WorkspaceNo,
        query: RecordQuery,
    ) -> StoreResult<Vec<ProjectRecord>> {
        self.read(move |connection| {
            let kind = query.kind;
            connection
                .prepare_cached(
                    "SELECT owner, id, starts, ends, words, body, version FROM project_records
                     WHERE workspace = ?1 AND kind = ?2 AND (?3 IS NULL OR owner = ?3)
                       AND (?4 IS NULL OR id IN (SELECT value FROM json_each(?4)))
                       AND (?5 IS NULL OR (ends > ?5 AND starts < ?6))
                       AND (?7 IS NULL OR instr(words, ?7) > 0)
                     ORDER BY starts, words, id LIMIT ?8",
                )?
                .query_map(
                    params![
                        workspace.0,
                        kind.as_str(),
                        query.owner,
                        query.ids.as_ref().map(Json),
                        query.overlaps.map(|(start, _)| start.0),
                        query.overlaps.map(|(_, end)| end.0),
                        query.contains,
                        int(query.limit as u64),
                    ],
                    |row| record(kind, row),
                )?
                .collect()
        })
        .await
    }

    async fn invites_of_events(
        &self,
        workspace: WorkspaceNo,
        events: &[String],
    ) -> StoreResult<Vec<InviteRow>> {
        let events = events.to_vec();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{INVITES} WHERE workspace = ?1 AND event IN (SELECT value FROM json_each(?2)) ORDER BY no"
                ))?
                .query_map(params![workspace.0, Json(&events)], invite)?
                .collect()
        })
        .await
    }

    async fn invites_to(
        &self,
        workspace: WorkspaceNo,
        email: &str,
        limit: usize,
    ) -> StoreResult<Vec<InviteRow>> {
        let email = email.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{INVITES} WHERE workspace = ?1 AND email = ?2 AND status <> 'rejected' ORDER BY no LIMIT ?3"
                ))?
                .query_map(params![workspace.0, email, int(limit as u64)], invite)?
                .collect()
        })
        .await
    }

    async fn invite(&self, workspace: WorkspaceNo, id: &str) -> StoreResult<Option<InviteRow>> {
        let id = id.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("{INVITES} WHERE workspace = ?1 AND id = ?2"))?
                .query_row(params![workspace.0, id], invite)
                .optional()
        })
        .await
    }

    async fn project_receipt(
        &self,
        workspace: WorkspaceNo,
        key: &str,
    ) -> StoreResult<Option<String>> {
        let key = key.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(RECEIPT)?
                .query_row(params![workspace.0, key], |row| row.get(0))
                .optional()
        })
        .await
    }

    async fn change_project(&self, change: ProjectChange) -> StoreResult<ProjectChanged> {
        self.writer
            .run("change_project", move |tx| apply(tx, &change))
            .await
    }

    async fn erase_project_owner(&self, erasure: OwnerErasure) -> StoreResult<u64> {
        self.writer
            .run("erase_project_owner", move |tx| erase(tx, &erasure))
            .await
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
    store: &SqliteStore,
    table: &'static str,
    workspace: WorkspaceNo,
    id: &str,
) -> StoreResult<Option<String>> {
    let id = id.to_owned();
    store
        .read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT private_to FROM {table} WHERE workspace = ?1 AND id = ?2"
                ))?
                .query_row(params![workspace.0, id], |row| row.get(0))
                .optional()
                .map(Option::flatten)
        })
        .await
}

const INVITES: &str = "SELECT id, event, email, status, message FROM project_invites";
const RECEIPT: &str = "SELECT response FROM project_receipts WHERE workspace = ?1 AND key = ?2";

fn record(kind: RecordKind, row: &Row<'_>) -> rusqlite::Result<ProjectRecord> {
    let (start, end): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    Ok(ProjectRecord {
        kind,
        owner: row.get(0)?,
        id: row.get(1)?,
        span: start
            .zip(end)
            .map(|(start, end)| (Millis(start), Millis(end))),
        words: row.get(4)?,
        body: row.get(5)?,
        version: uint(row.get(6)?),
    })
}

fn invite(row: &Row<'_>) -> rusqlite::Result<InviteRow> {
    let status: String = row.get(3)?;
    Ok(InviteRow {
        id: row.get(0)?,
        event: row.get(1)?,
        email: row.get(2)?,
        status: InviteStatus::parse(&status).unwrap_or(InviteStatus::Pending),
        message: row.get(4)?,
    })
}

/// Conditions are checked before anything is written: a job of a shared transaction cannot be rolled back by itself.
fn apply(tx: &Tx<'_>, change: &ProjectChange) -> rusqlite::Result<ProjectChanged> {
    if let Some(receipt) = &change.receipt {
        let earlier = tx
            .connection
            .prepare_cached(RECEIPT)?
            .query_row(params![change.workspace.0, receipt.key], |row| row.get(0))
            .optional()?;
        if let Some(response) = earlier {
            return Ok(ProjectChanged::Replayed(response));
        }
    }
    for write in &change.writes {
        if let Some(obstacle) = obstacle(tx, change.workspace, write)? {
            return Ok(obstacle);
        }
    }
    for write in &change.writes {
        perform(tx, change.workspace, write)?;
    }
    if let Some(receipt) = &change.receipt {
        tx.execute(
            "INSERT INTO project_receipts (workspace, key, owner, response, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![change.workspace.0, receipt.key, change.owner, receipt.response, change.now.0],
        )?;
        tx.execute(
            "DELETE FROM project_receipts WHERE (workspace, key) IN
                 (SELECT workspace, key FROM project_receipts WHERE created_at < ?1 LIMIT 100)",
            params![change.now.0.saturating_sub(RECEIPT_MILLIS)],
        )?;
    }
    Ok(ProjectChanged::Applied)
}

fn obstacle(
    tx: &Tx<'_>,
    workspace: WorkspaceNo,
    write: &ProjectWrite,
) -> rusqlite::Result<Option<ProjectChanged>> {
    let version = |kind: RecordKind, owner: &str, id: &str| -> rusqlite::Result<Option<i64>> {
        tx.connection
            .prepare_cached(
                "SELECT version FROM project_records WHERE workspace = ?1 AND kind = ?2 AND id = ?3 AND owner = ?4",
            )?
            .query_row(params![workspace.0, kind.as_str(), id, owner], |row| row.get(0))
            .optional()
    };
    Ok(match write {
        ProjectWrite::Insert { record, max } => {
            let count: i64 = tx
                .connection
                .prepare_cached(
                    "SELECT count(*) FROM project_records WHERE workspace = ?1 AND owner = ?2 AND kind = ?3",
                )?
                .query_row(
                    params![workspace.0, record.owner, record.kind.as_str()],
                    |row| row.get(0),
                )?;
            if uint(count) >= *max as u64 {
                Some(ProjectChanged::Full)
            } else {
                version(record.kind, &record.owner, &record.id)?.map(|_| ProjectChanged::Conflict)
            }
        }
        ProjectWrite::Update(record) => {
            let found = version(record.kind, &record.owner, &record.id)?;
            (found != Some(int(record.version))).then_some(ProjectChanged::Conflict)
        }
        ProjectWrite::Delete { kind, owner, id } => {
            let found = version(*kind, owner, id)?;
            found.is_none().then_some(ProjectChanged::Conflict)
        }
        ProjectWrite::Invite(_) => None,
        ProjectWrite::Answer { id, from, .. } => {
            let found: Option<String> = tx
                .connection
                .prepare_cached(
                    "SELECT status FROM project_invites WHERE workspace = ?1 AND id = ?2",
                )?
                .query_row(params![workspace.0, id], |row| row.get(0))
                .optional()?;
            (found.as_deref() != Some(from.as_str())).then_some(ProjectChanged::Conflict)
        }
    })
}

fn perform(tx: &Tx<'_>, workspace: WorkspaceNo, write: &ProjectWrite) -> rusqlite::Result<()> {
    match write {
        ProjectWrite::Insert { record, .. } => tx.execute(
            "INSERT INTO project_records (workspace, kind, owner, id, starts, ends, words, body, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)",
            params![
                workspace.0,
                record.kind.as_str(),
                record.owner,
                record.id,
                record.span.map(|(start, _)| start.0),
                record.span.map(|(_, end)| end.0),
                record.words,
                record.body,
            ],
        )?,
        ProjectWrite::Update(record) => tx.execute(
            "UPDATE project_records SET starts = ?5, ends = ?6, words = ?7, body = ?8, version = version + 1
             WHERE workspace = ?1 AND kind = ?2 AND owner = ?3 AND id = ?4",
            params![
                workspace.0,
                record.kind.as_str(),
                record.owner,
                record.id,
                record.span.map(|(start, _)| start.0),
                record.span.map(|(_, end)| end.0),
                record.words,
                record.body,
            ],
        )?,
        ProjectWrite::Delete { kind, owner, id } => {
            if *kind == RecordKind::Event {
                tx.execute(
                    "DELETE FROM project_invites WHERE workspace = ?1 AND event = ?2",
                    params![workspace.0, id],
                )?;
            }
            tx.execute(
                "DELETE FROM project_records WHERE workspace = ?1 AND kind = ?2 AND owner = ?3 AND id = ?4",
                params![workspace.0, kind.as_str(), owner, id],
            )?
        }
        ProjectWrite::Invite(row) => tx.execute(
            "INSERT INTO project_invites (workspace, id, event, email, status, message)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (workspace, event, email) DO NOTHING",
            params![workspace.0, row.id, row.event, row.email, row.status.as_str(), row.message],
        )?,
        ProjectWrite::Answer { id, to, .. } => tx.execute(
            "UPDATE project_invites SET status = ?3 WHERE workspace = ?1 AND id = ?2",
            params![workspace.0, id, to.as_str()],
        )?,
    };
    Ok(())
}

fn erase(tx: &Tx<'_>, erasure: &OwnerErasure) -> rusqlite::Result<u64> {
    let (workspace, owner) = (erasure.workspace.0, &erasure.owner);
    let mut gone = tx.execute(
        "DELETE FROM project_invites WHERE workspace = ?1 AND (email = ?3 OR event IN
             (SELECT id FROM project_records WHERE workspace = ?1 AND owner = ?2 AND kind = 'event'))",
        params![workspace, owner, erasure.email],
    )?;
    for table in ["project_records", "project_receipts"] {
        gone += tx.execute(
            &format!("DELETE FROM {table} WHERE workspace = ?1 AND owner = ?2"),
            params![workspace, owner],
        )?;
    }
    Ok(gone as u64)
}
